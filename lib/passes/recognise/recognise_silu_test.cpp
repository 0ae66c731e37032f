#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

std::string left(const std::function<ValueId(Builder&, ValueId)>& f) {
  return Rewrite("recognise_silu", [f](Builder& b) { return std::vector{f(b, f32_input(b, "x", {4, 8}))}; }).left();
}

}  // namespace

TEST_CASE("gated activations become one node") {
  CHECK(left([](Builder& b, ValueId x) { return b.mul(x, b.unary(OpKind::Sigmoid, x)); }) == "silu");
  CHECK(left([](Builder& b, ValueId x) { return b.mul(b.unary(OpKind::Sigmoid, x), x); }) == "silu");
  CHECK(left([](Builder& b, ValueId x) { return b.mul(x, b.unary(OpKind::Sigmoid, b.mul(x, num(b, 1.702)))); }) == "swish");
  CHECK(left([](Builder& b, ValueId x) {
          return b.mul(x, b.create(OpKind::HardSigmoid, {x}, AlphaBetaAttrs{1.0 / 6, 0.5}));
        }) == "hard_swish");
  CHECK(left([](Builder& b, ValueId x) {
          return b.div(b.mul(x, b.create(OpKind::Clamp, {b.add(x, num(b, 3))}, ClampAttrs{0, 6})), num(b, 6));
        }) == "hard_swish");
  CHECK(left([](Builder& b, ValueId x) {
          const ValueId c = b.create(OpKind::Min, {b.create(OpKind::Max, {b.add(num(b, 3), x), num(b, 0)}), num(b, 6)});
          return b.mul(x, b.div(c, num(b, 6)));
        }) == "hard_swish");
  CHECK(left([](Builder& b, ValueId x) { return b.mul(x, b.unary(OpKind::Tanh, b.unary(OpKind::Softplus, x))); }) == "mish");
}

TEST_CASE("a gate of another value stays") {
  CHECK(left([](Builder& b, ValueId x) {
          return b.mul(x, b.unary(OpKind::Sigmoid, f32_input(b, "g", {4, 8})));
        }) == "sigmoid mul");
  CHECK(left([](Builder& b, ValueId x) {
          return b.mul(x, b.create(OpKind::HardSigmoid, {x}, AlphaBetaAttrs{0.2, 0.5}));
        }) == "hard_sigmoid mul");
  CHECK(left([](Builder& b, ValueId x) {
          return b.div(b.mul(x, b.create(OpKind::Clamp, {b.add(x, num(b, 3))}, ClampAttrs{0, 6})), num(b, 5));
        }) == "add clamp mul div");
}
