#include "ir/graph.h"

#include <doctest/doctest.h>

#include <array>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"

using namespace rlxc;

namespace {

struct Fixture {
  Module m;
  Graph& g = m.main();
  Diagnostics d;
  Builder b{g, &d};
  ValueId x = b.input("x", tensor_type(DType::F32, {m.dims.symbol("batch"), 4}));
  ValueId w = b.param("w", tensor_type(DType::F32, {4, 8}));
};

}  // namespace

TEST_CASE("a built graph has types, uses and outputs, and verifies") {
  Fixture f;
  const ValueId y = f.b.matmul(f.x, f.w), z = f.b.add(y, y);
  f.g.add_output(z, f.m.symbol("z"));
  CHECK(text(f.g.type(z), f.m.dims) == "f32[batch,8]");
  CHECK(f.g.use_count(y) == 2);
  CHECK(f.g.only_user(y) == NodeId());
  CHECK(f.g.is_output(z));
  CHECK(f.g.has_one_use(z));
  CHECK(verify(f.m, f.d));
}

TEST_CASE("a node that does not type-check is not made and says why") {
  Fixture f;
  CHECK_FALSE(f.b.matmul(f.w, f.w).valid());
  CHECK(f.d.text().find("contracted sizes differ: 8 and 4") != std::string::npos);
  CHECK(f.g.live_nodes() == 2);
}

TEST_CASE("replacing, erasing and compacting keep uses, order and names") {
  Fixture f;
  const ValueId a = f.b.unary(OpKind::Relu, f.x), c = f.b.unary(OpKind::Tanh, a), e = f.b.add(c, c);
  f.g.set_value_name(c, f.m.symbol("c"));
  f.g.set_node_name(f.g.def(c), f.m.symbol("tanh_1"));
  f.g.add_output(e, f.m.symbol("e"));
  f.m.current_pass = f.m.symbol("p");
  Builder before(f.g, &f.d, f.g.def(c));
  const ValueId n = before.unary(OpKind::Gelu, a);
  f.g.replace_all_uses(c, n);
  f.g.erase(f.g.def(c));
  CHECK(f.g.use_count(n) == 2);
  CHECK(f.m.text(f.g.value_name(n)) == "c");
  CHECK(f.g.label(f.g.def(n)) == "tanh_1");
  CHECK(f.m.text(f.m.origin(f.g.origin(f.g.def(n))).passes.at(0)) == "p");
  CHECK(verify(f.m, f.d));
  f.g.compact();
  CHECK(f.g.node_capacity() == 6);
  CHECK(verify(f.m, f.d));
  std::string order;
  for (NodeId k : f.g.nodes()) order += std::string(name(f.g.op(k))) + " ";
  CHECK(order == "input param relu gelu add ");
}

TEST_CASE("nodes may be erased and inserted while walking") {
  Fixture f;
  ValueId v = f.x;
  for (int i = 0; i < 10; ++i) v = f.b.unary(OpKind::Neg, v);
  f.g.add_output(v, {});
  int seen = 0;
  for (NodeId n : f.g.nodes()) {
    if (f.g.op(n) != OpKind::Neg) continue;
    ++seen;
    f.g.replace_all_uses(f.g.result(n), f.g.operand(n, 0));
    f.g.erase(n);
  }
  CHECK(seen == 10);
  CHECK(f.g.outputs()[0] == f.x);
  CHECK(f.g.live_nodes() == 2);
}

TEST_CASE("tensors that no process can address are refused, also where only some of their sizes are known") {
  const auto fits = [](std::vector<Dim> sizes, const char* symbol = nullptr) {
    Module m;
    if (symbol) sizes.push_back(m.dims.symbol(symbol));
    Builder b(m.main());
    m.main().add_output(b.unary(OpKind::Relu, b.input("x", tensor_type(DType::F32, std::move(sizes)))), {});
    Diagnostics d, all;
    const bool ok = verify_sizes(m, d);
    CHECK(verify(m, all) == ok);
    CHECK(ok == d.ok());
    return ok;
  };
  const Dim k(int64_t{1} << 15);
  CHECK(fits({k, k, k}));
  CHECK(fits({k, k, k}, "batch"));
  CHECK(fits({k, k, k, k, k, Dim(0)}));
  CHECK_FALSE(fits({k, k, k, Dim(2)}));
  CHECK_FALSE(fits({k, k, k, Dim(2)}, "batch"));
  CHECK_FALSE(fits({k, k, k, k, Dim(4)}));  // 2^62 elements, 2^64 bytes
  CHECK_FALSE(fits({k, k, k, k, k}));
  CHECK_FALSE(fits(std::vector<Dim>(65, Dim(1))));
}

TEST_CASE("lists of a graph are read while nodes are added") {
  Fixture f;
  const GraphId body = f.m.make_graph("body");
  const TypeId flag = f.m.types.tensor(DType::Bool, {});
  const ValueId c = f.g.result(f.g.make_node(OpKind::Param, {}, f.m.attrs.intern(NoAttrs{}), {&flag, 1}));
  const NodeId n = f.g.make_node(OpKind::If, std::array{c, f.x, f.w}, f.m.attrs.intern(IfAttrs{}), {}, std::array{body, body});
  f.g.add_output(f.x, {});
  f.g.add_output(f.w, {});
  const Type& type = f.g.type(f.w);
  const auto operands = f.g.operands(n);
  const auto bodies = f.g.bodies(n);
  const auto inputs = f.g.inputs();
  const auto outputs = f.g.outputs();
  const TensorData& data = f.m.data[f.m.data.add(make_splat(DType::I8, {4}, element_bytes(DType::I8, 7)))];
  for (int i = 0; i < 1000; ++i) {
    const ValueId v = f.b.input("more", tensor_type(DType::F32, {i}));
    const NodeId copy = f.g.make_node(OpKind::If, std::array{c, v}, f.g.attr_id(n), {}, bodies.copy());
    f.g.set_operands(copy, operands.copy());
    f.m.data.add(make_splat(DType::I8, {i}, element_bytes(DType::I8, 1)));
  }
  CHECK(operands.copy() == std::vector{c, f.x, f.w});
  CHECK(bodies.copy() == std::vector{body, body});
  CHECK(inputs.copy() == std::vector{f.g.def(f.x)});
  CHECK(outputs.copy() == std::vector{f.x, f.w});
  CHECK(&type == &f.g.type(f.w));
  CHECK(element_as_int(data, 0) == 7);
}

TEST_CASE("the verifier finds a use before its definition and a wrong type") {
  Fixture f;
  const ValueId a = f.b.unary(OpKind::Relu, f.x), c = f.b.unary(OpKind::Relu, a);
  f.g.add_output(c, {});
  f.g.move_before(f.g.def(c), f.g.def(a));
  CHECK_FALSE(verify(f.m, f.d));
  CHECK(f.d.text().find("before it is computed") != std::string::npos);
  f.g.move_before(f.g.def(a), f.g.def(c));
  Diagnostics d2;
  f.g.set_type(c, f.m.types.tensor(DType::F32, {3, 3}));
  CHECK_FALSE(verify(f.m, d2));
  CHECK(d2.text().find("declared f32[3,3], inferred f32[batch,4]") != std::string::npos);
}

TEST_CASE("many outputs, between new nodes and in a row, take room in proportion") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {2}));
  for (int i = 0; i < 10; ++i) m.main().add_output(b.unary(OpKind::Neg, x), m.symbol("y" + std::to_string(i)));
  constexpr size_t kMany = 300'000;  // a list of its own for each addition would exceed memory
  while (m.main().outputs().size() < kMany) m.main().add_output(x, {});
  CHECK(m.main().use_count(x) == kMany);
  CHECK(m.main().op(m.main().def(m.main().outputs()[9])) == OpKind::Neg);
  CHECK(m.text(m.main().output_name(9)) == "y9");
  CHECK(m.main().outputs()[kMany - 1] == x);
}

TEST_CASE("a copy of a module has its ids, and neither sees what the other gains") {
  Fixture f;
  const GraphId body = f.m.make_graph("body");
  f.g.set_node_name(f.g.def(f.x), f.m.symbol("input"));
  f.g.add_output(f.b.unary(OpKind::Relu, f.x), f.m.symbol("y"));
  const std::string before = print(f.m);
  const auto copy = f.m.copy();
  CHECK(print(*copy) == before);
  CHECK(&copy->main().module() == copy.get());
  CHECK(&copy->graph(body).module() == copy.get());
  CHECK(copy->symbol("input") == f.m.symbol("input"));
  const Symbol mine = f.m.symbol("only here"), other = copy->symbol("only there");
  CHECK(mine == other);
  CHECK(f.m.bytes(mine) == "only here");
  CHECK(copy->bytes(other) == "only there");
  Builder(copy->main()).unary(OpKind::Neg, f.x);
  copy->main().erase(copy->main().def(f.w));
  CHECK(print(f.m) == before);
  CHECK(verify(*copy, f.d));
}
