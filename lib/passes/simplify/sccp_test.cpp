#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/random_graph.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// If(condition) { neg(x) } else { If(flag) { exp(x) } else { tanh(x) } }, where `flag` is captured.
struct Fixture : PassFixture {
  Type t = tensor_type(DType::F32, {4}), flag_type = tensor_type(DType::Bool, {});
  ValueId x = b.input("x", t);

  GraphId leaf(OpKind op) {
    const GraphId id = m.make_graph("g" + std::to_string(m.graph_count()));
    Builder inner(m.graph(id));
    m.graph(id).add_output(inner.unary(op, inner.input("v", t)), {});
    return id;
  }
  void build(ValueId condition, ValueId flag) {
    const GraphId then_body = m.make_graph("then"), else_body = m.make_graph("else");
    Builder first(m.graph(then_body)), second(m.graph(else_body));
    const ValueId v = first.input("v", t);
    first.input("flag", flag_type);
    m.graph(then_body).add_output(first.unary(OpKind::Neg, v), {});
    const ValueId w = second.input("v", t), f = second.input("flag", flag_type);
    const std::vector<GraphId> bodies{leaf(OpKind::Exp), leaf(OpKind::Tanh)};
    const std::vector<ValueId> operands{f, w};
    m.graph(else_body).add_output(m.graph(else_body).result(second.create_node(OpKind::If, operands, IfAttrs{}, bodies)), {});
    const std::vector<GraphId> outer{then_body, else_body};
    const std::vector<ValueId> all{condition, x, flag};
    g.add_output(g.result(b.create_node(OpKind::If, all, IfAttrs{}, outer)), m.symbol("y"));
  }
  ValueId constant(bool v) { return b.scalar(DType::Bool, v); }
};

}  // namespace

TEST_CASE("an If with a constant condition becomes the body it chooses, nested ones too") {
  Fixture f;
  f.build(f.constant(false), f.constant(true));
  CHECK(count(f.run(f.m, "sccp"), "branches_inlined") == 2);
  f.run(f.m, "dead_code_elimination");
  CHECK(ops(f.g) == "input exp");
  CHECK_FALSE(f.run(f.m, "sccp").changed);
}

TEST_CASE("a captured constant decides a branch inside a body") {
  Fixture f;
  f.build(f.b.input("condition", f.flag_type), f.constant(false));
  CHECK(count(f.run(f.m, "sccp"), "branches_inlined") == 1);
  f.run(f.m, "dead_code_elimination");
  CHECK(ops(f.g) == "input input if");
  CHECK(ops(f.m.graph(f.g.bodies(f.g.def(f.g.outputs()[0]))[1])) == "input tanh");
}

TEST_CASE("an unknown condition stays") {
  Fixture f;
  f.build(f.b.input("condition", f.flag_type), f.b.input("flag", f.flag_type));
  CHECK_FALSE(f.run(f.m, "sccp").changed);
}

TEST_CASE("branches of random graphs stay valid") {
  int64_t inlined = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const auto m = random_graph({.seed = seed});
    PassRun run;
    inlined += count(run(*m, "sccp"), "branches_inlined");
    run(*m, "dead_code_elimination");
    CHECK_FALSE(run(*m, "sccp").changed);
  }
  CHECK(inlined > 20);
}
