#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// The sum of x if its first element is above 0, else its largest element, or the element at a position that x gives.
std::vector<ValueId> branches(Builder& b, bool looks_up) {
  Module& m = b.module();
  const ValueId x = f32_input(b, "x", {3});
  const ValueId positive =
      b.reshape(b.create(OpKind::Gt, {b.create(OpKind::Narrow, {x}, NarrowAttrs{0, Dim(0), Dim(1)}), num(b, 0)}), {});
  std::vector<GraphId> bodies;
  for (bool first : {true, false}) {
    Graph& body = m.graph(m.make_graph(first ? "then" : "else"));
    Builder inner(body);
    const ValueId v = inner.input("x", tensor_type(DType::F32, {3}));
    const ValueId index = inner.cast(inner.reduce(ReduceOp::Max, v, {0}, false), DType::I64);
    body.add_output(first      ? inner.reduce(ReduceOp::Sum, v, {0}, false)
                    : looks_up ? inner.create(OpKind::Gather, {v, index}, AxisAttrs{0})
                               : inner.reduce(ReduceOp::Max, v, {0}, false),
                    {});
    bodies.push_back(body.id());
  }
  const NodeId n = b.create_node(OpKind::If, std::vector<ValueId>{positive, x}, IfAttrs{}, bodies);
  return {b.graph().result(n)};
}

Rewrite selected(uint64_t most, bool looks_up = false, bool has_if = true) {
  return Rewrite(
      "select_branches", [=](Builder& b) { return branches(b, looks_up); },
      [=](PassRun& run) {
        run.options.unroll_max_nodes = most;
        run.target.native.set(static_cast<size_t>(OpKind::If), has_if);
      });
}

}  // namespace

TEST_CASE("both branches of a small If are computed, and the results selected") {
  const Rewrite r = selected(100);
  CHECK_FALSE(r.find(OpKind::If).valid());
  CHECK(r.find(OpKind::Where).valid());
}

TEST_CASE("without an If on the target, branches of any size are computed") {
  CHECK_FALSE(selected(0, false, false).find(OpKind::If).valid());
}

TEST_CASE("an If that is too large, may read out of range, or is not asked for stays an If") {
  CHECK(selected(3).find(OpKind::If).valid());
  CHECK(selected(100, true).find(OpKind::If).valid());
  CHECK(selected(0).find(OpKind::If).valid());
}
