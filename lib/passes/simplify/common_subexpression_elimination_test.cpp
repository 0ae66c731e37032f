#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture : PassFixture {
  ValueId x = b.input("x", tensor_type(DType::F32, {2, 2})), y = b.input("y", tensor_type(DType::F32, {2, 2}));
  void out(ValueId v) { g.add_output(v, {}); }
  int64_t merged() { return count(run(m, "common_subexpression_elimination"), "nodes_merged"); }
};

}  // namespace

TEST_CASE("equal expressions are merged, with commutative operands in any order") {
  Fixture f;
  const ValueId a = f.b.add(f.x, f.y), c = f.b.add(f.y, f.x);
  f.out(f.b.mul(f.b.unary(OpKind::Exp, a), f.b.unary(OpKind::Exp, c)));
  CHECK(f.merged() == 2);
  CHECK(ops(f.g) == "input input add exp mul");
  CHECK(f.merged() == 0);
}

TEST_CASE("different order, attributes or types are different expressions") {
  Fixture f;
  f.out(f.b.sub(f.x, f.y));
  f.out(f.b.sub(f.y, f.x));
  f.out(f.b.matmul(f.x, f.y));
  f.out(f.b.matmul(f.x, f.y, true));
  CHECK(f.merged() == 0);
}

TEST_CASE("constants of equal content are one; equal bytes of another type or shape are not") {
  Fixture f;
  f.out(f.b.scalar(DType::F32, 1));
  f.out(f.b.scalar(DType::F32, 1));
  f.out(f.b.scalar(DType::I32, 0x3f800000));
  f.out(f.b.constant(make_data(DType::F32, {1}, std::vector<float>{1})));
  CHECK(f.merged() == 1);
  CHECK(f.g.outputs()[0] == f.g.outputs()[1]);
}

TEST_CASE("parameters are never merged") {
  Fixture f;
  const DataId d = f.m.data.add(make_data(DType::F32, {1}, std::vector<float>{1}));
  f.out(f.b.add(f.b.param("a", tensor_type(DType::F32, {1}), d), f.b.param("b", tensor_type(DType::F32, {1}), d)));
  CHECK(f.merged() == 0);
}

TEST_CASE("all results of a node are merged, and the first name stays") {
  Fixture f;
  const std::vector<ValueId> in{f.x};
  const NodeId a = f.b.create_node(OpKind::TopK, in, TopKAttrs{1, 1}), c = f.b.create_node(OpKind::TopK, in, TopKAttrs{1, 1});
  f.g.set_node_name(a, f.m.symbol("first"));
  f.g.set_node_name(c, f.m.symbol("second"));
  f.out(f.g.result(a, 0));
  f.out(f.g.result(c, 1));
  CHECK(f.merged() == 1);
  CHECK(f.g.outputs()[1] == f.g.result(a, 1));
  CHECK(f.g.label(a) == "first");
}

TEST_CASE("a concatenation that continues an earlier one reads it") {
  Fixture f;
  const ValueId z = f.b.input("z", tensor_type(DType::F32, {2, 2}));
  const auto join = [&](std::initializer_list<ValueId> parts, int64_t axis = 0) {
    f.out(f.b.concat(std::vector<ValueId>(parts), axis));
    return f.g.outputs().size() - 1;
  };
  const size_t two = join({f.x, f.y}), three = join({f.x, f.y, z}), five = join({f.x, f.y, z, f.x, f.y});
  const size_t swapped = join({f.y, f.x, z}), along = join({f.x, f.y, z}, 1);
  CHECK(count(f.run(f.m, "common_subexpression_elimination"), "joins_continued") == 2);
  const auto parts = [&](size_t i) {
    const auto operands = f.g.operands(f.g.def(f.g.outputs()[i]));
    return std::vector<ValueId>(operands.begin(), operands.end());
  };
  CHECK(parts(three) == std::vector{f.g.outputs()[two], z});
  CHECK(parts(five) == std::vector{f.g.outputs()[three], f.x, f.y});
  CHECK(parts(swapped).size() == 3);
  CHECK(parts(along).size() == 3);
  CHECK_FALSE(f.run(f.m, "common_subexpression_elimination").changed);
}
