// Gradients where a function or its slope is infinite or NaN: 0 behind what is not taken, and finite where the function is.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "ir/term.h"
#include "support/rule_samples.h"
#include "transform/gradients.h"
#include "transform/rules.h"
#include "transform/tangents.h"

using namespace rlxc;
using namespace rlxc::test;
using namespace rlxc::transform;

namespace {

const std::vector<double> kAwkward{0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 1000, -1000, 1e200, -1e200};

struct Derivatives {
  std::vector<double> y, first, reverse_second, forward_second;
};

// Of sum(build(x, z)) by x, and of the sum of the gradient by x again, in both directions.
template <class F>
Derivatives derivatives(const std::vector<double>& x, const std::vector<double>& z, F build) {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const auto size = static_cast<int64_t>(x.size());
  const ValueId in = b.input("x", tensor_type(DType::F64, {Dim(size)})),
                other = b.input("z", tensor_type(DType::F64, {Dim(size)}));
  const Term y = build(Term{&b, in}, Term{&b, other});
  const std::vector<ValueId> wrt{in};
  const auto first = transform::gradients(b, y.v, {}, wrt, {}, d);
  REQUIRE_MESSAGE(first, d.text());
  const auto second = transform::gradients(b, (*first)[0], {}, wrt, {}, d);
  const ValueId ones = b.expand(b.scalar(DType::F64, 1), {Dim(size)});
  const auto moved = tangents(b, *first, wrt, std::array{ones}, {}, d);
  REQUIRE_MESSAGE((second && moved), d.text());
  const ValueId forward = (*moved)[0].valid() ? (*moved)[0] : zeros(b, DType::F64, {Dim(size)}).v;
  m.main().set_outputs(std::vector<ValueId>{y.v, (*first)[0], (*second)[0], forward});
  const std::vector<HostValue> inputs{tensor_of(DType::F64, {size}, x), tensor_of(DType::F64, {size}, z)};
  const auto r = eval::evaluate(m, inputs, d);
  REQUIRE_MESSAGE(r, d.text());
  return {numbers((*r)[0]), numbers((*r)[1]), numbers((*r)[2]), numbers((*r)[3])};
}

Attrs attrs_of(OpKind op) {
  Attrs attrs = default_attrs(op);
  if (auto* a = std::get_if<AlphaBetaAttrs>(&attrs)) *a = {0.7, 0.2};
  if (auto* c = std::get_if<ClampAttrs>(&attrs)) *c = {-0.5, 0.4};
  return attrs;
}

// The square is taken everywhere, and f nowhere.
template <class F>
void check_masked(const std::vector<double>& x, const std::vector<double>& z, F f) {
  const auto masked = [&](Term a, Term b) {
    const Term no = make(OpKind::IsNan, {a});
    return select(no, f(a, b), square(a));
  };
  const Derivatives d = derivatives(x, z, masked);
  for (size_t i = 0; i < x.size(); ++i) {
    INFO("x = ", x[i], ", z = ", z[i]);
    CHECK(d.first[i] == 2 * x[i]);
    CHECK(d.reverse_second[i] == 2);
    CHECK(d.forward_second[i] == 2);
  }
}

}  // namespace

TEST_CASE("what a Where does not take contributes 0 to derivatives of the first and second order") {
  std::vector<double> x, z;
  for (double a : kAwkward)
    for (double b : kAwkward) x.push_back(a), z.push_back(b);
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    INFO(std::string(name(op)));
    if (has_slope(op)) check_masked(kAwkward, kAwkward, [&](Term a, Term) { return make(op, {a}, attrs_of(op)); });
  }
  for (OpKind op :
       {OpKind::Mul, OpKind::MulNoNan, OpKind::Div, OpKind::Pow, OpKind::Mod, OpKind::Fmod, OpKind::Atan2, OpKind::PRelu}) {
    INFO(std::string(name(op)));
    check_masked(x, z, [&](Term a, Term b) { return make(op, {a, b}); });
    check_masked(x, z, [&](Term a, Term b) { return make(op, {b, a}); });
  }
  check_masked(kAwkward, kAwkward, [](Term a, Term) { return a * log(a); });
  check_masked(kAwkward, kAwkward, [](Term a, Term) { return sqrt(log(a) / a); });
}

TEST_CASE("what Max, Min and Clamp do not take contributes 0") {
  const std::vector<double> x{0, 0.5, 4};
  const auto slopes = [&](auto f) { return derivatives(x, x, [&](Term a, Term) { return f(a); }).first; };
  CHECK(slopes([](Term a) { return max(log(a), 0.0); }) == std::vector<double>{0, 0, 0.25});
  CHECK(slopes([](Term a) { return min(recip(a), 1.0); }) == std::vector<double>{0, 0, -0.0625});
  CHECK(slopes([](Term a) { return make(OpKind::Clamp, {log(a)}, ClampAttrs{-5, 1}); }) == std::vector<double>{0, 2, 0});
}

TEST_CASE("derivatives are finite where the function is") {
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (!has_slope(op)) continue;
    INFO(std::string(name(op)));
    const Derivatives d = derivatives(kAwkward, kAwkward, [&](Term a, Term) { return make(op, {a}, attrs_of(op)); });
    for (size_t i = 0; i < kAwkward.size(); ++i)
      CHECK_MESSAGE((std::isfinite(d.first[i]) || !std::isfinite(d.y[i])), kAwkward[i], ": ", d.y[i], ", ", d.first[i]);
  }
  const std::vector<double> zero{0, 0, 0}, powers{0.5, 1, 3};
  CHECK(derivatives(zero, powers, [](Term a, Term b) { return pow(a, b); }).first == std::vector<double>{0, 1, 0});
  CHECK(derivatives(zero, zero, [](Term a, Term b) { return make(OpKind::Atan2, {a, b}); }).first == zero);
}

TEST_CASE("a gradient that happens to be 0 keeps its derivative") {
  // The square of the logarithm at 1.
  const Derivatives d = derivatives({1, 2}, {1, 1}, [](Term a, Term) { return square(log(a)); });
  CHECK(d.first[0] == 0);
  CHECK(d.reverse_second[0] == doctest::Approx(2));
  CHECK(d.forward_second[0] == doctest::Approx(2));
}

TEST_CASE("derivatives end at StopGradient") {
  const std::vector<double> x{1, 2, -3};
  const Derivatives d = derivatives(x, x, [](Term a, Term) { return a * stop_gradient(a); });
  CHECK(d.y == std::vector<double>{1, 4, 9});
  CHECK(d.first == x);
  CHECK(d.reverse_second == std::vector<double>{0, 0, 0});
  CHECK(derivatives(x, x, [](Term a, Term) { return stop_gradient(square(a)); }).first == std::vector<double>{0, 0, 0});
}
