#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"

using namespace rlxc;
using namespace rlxc::testing;

TEST_CASE("dead code goes, declared inputs stay") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {4})), unused = b.input("unused", tensor_type(DType::F32, {4}));
  const ValueId w = b.param("w", tensor_type(DType::F32, {4}));
  b.add(b.unary(OpKind::Relu, unused), w);
  m.main().add_output(b.unary(OpKind::Tanh, x), m.symbol("y"));
  PassRun run;
  CHECK(count(run(m, "dead_code_elimination"), "nodes_removed") == 3);
  CHECK(ops(m.main()) == "input input tanh");
  CHECK_FALSE(run(m, "dead_code_elimination").changed);
}

TEST_CASE("a node one of whose results is read stays") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {4}));
  const NodeId top = b.create_node(OpKind::TopK, std::vector{x}, TopKAttrs{2, 0, true, true});
  m.main().add_output(m.main().result(top, 1), {});
  PassRun run;
  CHECK_FALSE(run(m, "dead_code_elimination").changed);
}

TEST_CASE("a node that defines a size which another names stays, and nodes that only name it do not") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {4})), k = b.input("k", tensor_type(DType::I64, {}));
  const ValueId places = b.unary(OpKind::Iota, k);
  const Dim size = m.main().dims(places)[0];
  const NodeId top = b.create_node(OpKind::TopK, std::vector{x}, TopKAttrs{size, 0, true, true});
  b.expand(b.reshape(b.scalar(DType::F32, 1), {Dim(1)}), {size});
  m.main().add_output(m.main().result(top, 1), {});
  PassRun run;
  run(m, "dead_code_elimination");
  CHECK(ops(m.main()) == "input input iota topk");
}

TEST_CASE("captured values that no body reads are dropped, and what computed them dies") {
  Module m;
  Graph& g = m.main();
  Builder b(g);
  const Type t = tensor_type(DType::F32, {4});
  const ValueId p = b.input("p", tensor_type(DType::Bool, {})), x = b.input("x", t);
  const ValueId read = b.unary(OpKind::Relu, x), unread = b.unary(OpKind::Tanh, x);
  std::vector<GraphId> bodies;
  for (int i = 0; i < 2; ++i) {
    bodies.push_back(m.make_graph("body" + std::to_string(i)));
    Builder inner(m.graph(bodies.back()));
    const ValueId dead = inner.input("dead", t), live = inner.input("live", t);
    inner.unary(OpKind::Neg, dead);
    m.graph(bodies.back()).add_output(i ? inner.unary(OpKind::Neg, live) : live, {});
  }
  const std::vector<ValueId> operands{p, unread, read};
  g.add_output(g.result(b.create_node(OpKind::If, operands, IfAttrs{}, bodies)), m.symbol("y"));
  PassRun run;
  const PassResult r = run(m, "dead_code_elimination");
  CHECK(count(r, "captures_removed") == 1);
  CHECK(ops(g) == "input input relu if");
  CHECK(m.graph(bodies[0]).inputs().size() == 1);
  CHECK(ops(m.graph(bodies[1])) == "input neg");
}

TEST_CASE("what defines a size stays as long as a node names it") {
  Module m;
  Graph& g = m.main();
  Builder b(g);
  const ValueId x = b.input("x", tensor_type(DType::F32, {4})), found = b.unary(OpKind::NonZero, x);
  const ValueId count_of = b.create(OpKind::DimValue, {}, DimsAttrs{{g.dims(found)[1]}, true});
  g.add_output(count_of, m.symbol("count"));
  PassRun run;
  CHECK_FALSE(run(m, "dead_code_elimination").changed);
  g.replace_all_uses(count_of, b.ints({3}));
  CHECK(count(run(m, "dead_code_elimination"), "nodes_removed") == 2);
  CHECK(ops(g) == "input constant");
}

TEST_CASE("dead code elimination of a long chain") {
  Module m;
  Builder b(m.main());
  ValueId v = b.input("x", tensor_type(DType::F32, {4}));
  const ValueId x = v;
  for (int i = 0; i < 100000; ++i) v = b.unary(OpKind::Neg, v);
  m.main().add_output(x, {});
  PassRun run;
  CHECK(count(run(m, "dead_code_elimination"), "nodes_removed") == 100000);
}
