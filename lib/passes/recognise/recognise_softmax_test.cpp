#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

Rewrite::Build chain(int64_t max_axis, int64_t sum_axis) {
  return [=](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 3, 3});
    const ValueId e = b.unary(OpKind::Exp, b.sub(x, b.reduce(ReduceOp::Max, x, {max_axis}, true)));
    return std::vector{b.div(e, b.reduce(ReduceOp::Sum, e, {sum_axis}, true))};
  };
}

}  // namespace

TEST_CASE("a softmax chain becomes one node on its axis") {
  const Rewrite r("recognise_softmax", chain(1, 1));
  CHECK(r.left() == "softmax");
  CHECK(r.after->main().attrs<AxisAttrs>(r.find(OpKind::Softmax)).axis == 1);
}

TEST_CASE("maximum and sum over different axes are not a softmax") {
  CHECK_FALSE(Rewrite("recognise_softmax", chain(1, 2)).result.changed);
}
