#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

Rewrite::Build gelu(const std::function<ValueId(Builder&, ValueId)>& f) {
  return [f](Builder& b) { return std::vector{f(b, f32_input(b, "x", {4, 8}))}; };
}
ValueId one_plus_erf(Builder& b, ValueId x, double k = 0.7071067690849304) {
  return b.add(b.unary(OpKind::Erf, b.mul(x, num(b, k))), num(b, 1));
}
ValueId one_plus_tanh(Builder& b, ValueId x, double cubic = 0.044714998453855515) {
  const ValueId cube = b.create(OpKind::Pow, {x, num(b, 3)});
  return b.add(b.unary(OpKind::Tanh, b.mul(b.add(x, b.mul(cube, num(b, cubic))), num(b, 0.7978845834732056))), num(b, 1));
}

}  // namespace

TEST_CASE("gelu by erf, in every order of the factors") {
  CHECK(Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) { return b.mul(b.mul(x, one_plus_erf(b, x)), num(b, 0.5)); }))
            .left() == "gelu");
  CHECK(Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) { return b.mul(b.mul(num(b, 0.5), x), one_plus_erf(b, x)); }))
            .left() == "gelu");
  CHECK(Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) { return b.mul(x, b.mul(one_plus_erf(b, x), num(b, 0.5))); }))
            .left() == "gelu");
  CHECK(Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) {
                  const ValueId e = b.add(num(b, 1), b.unary(OpKind::Erf, b.div(x, num(b, 1.41421356237))));
                  return b.div(b.mul(x, e), num(b, 2));
                }))
            .left() == "gelu");
}

TEST_CASE("gelu of a product") {
  CHECK(Rewrite("recognise_gelu", [](Builder& b) {
          const ValueId x = b.mul(f32_input(b, "p", {4}), f32_input(b, "q", {4}));
          return std::vector{b.mul(b.mul(num(b, 0.5), x), one_plus_erf(b, x))};
        }).left() == "mul gelu");
}

TEST_CASE("gelu by tanh, with Pow, with products and factored") {
  CHECK(Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) { return b.mul(b.mul(x, num(b, 0.5)), one_plus_tanh(b, x)); }))
            .left() == "gelu_approx");
  CHECK(Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) {
                  const ValueId cubic = b.mul(b.mul(b.mul(num(b, 0.044715), x), x), x);
                  const ValueId t = b.unary(OpKind::Tanh, b.mul(num(b, 0.7978845608), b.add(x, cubic)));
                  return b.mul(b.mul(num(b, 0.5), x), b.add(num(b, 1), t));
                }))
            .left() == "gelu_approx");
  CHECK(Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) {
                  const ValueId f = b.add(num(b, 1), b.mul(b.mul(x, x), num(b, 0.044715)));
                  const ValueId t = b.unary(OpKind::Tanh, b.mul(b.mul(num(b, 0.7978845608), x), f));
                  return b.mul(b.mul(num(b, 0.5), x), b.add(num(b, 1), t));
                }))
            .left() == "gelu_approx");
}

TEST_CASE("other constants are not gelu") {
  CHECK_FALSE(
      Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) { return b.mul(b.mul(x, one_plus_erf(b, x, 0.7)), num(b, 0.5)); }))
          .result.changed);
  CHECK_FALSE(
      Rewrite("recognise_gelu", gelu([](Builder& b, ValueId x) { return b.mul(b.mul(x, one_plus_erf(b, x)), num(b, 0.6)); }))
          .result.changed);
  CHECK_FALSE(Rewrite("recognise_gelu",
                      gelu([](Builder& b, ValueId x) { return b.mul(b.mul(x, num(b, 0.5)), one_plus_tanh(b, x, 0.05)); }))
                  .result.changed);
  CHECK_FALSE(Rewrite("recognise_gelu", [](Builder& b) {
                const ValueId x = f32_input(b, "x", {4}), y = f32_input(b, "y", {4});
                return std::vector{b.mul(b.mul(y, num(b, 0.5)), one_plus_erf(b, x))};
              }).result.changed);
}
