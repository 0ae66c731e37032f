#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fold_scale";

struct Form {
  bool bias = false, trans = false, tap = false, runtime = false, swap = false;
  std::vector<int64_t> scale{4};
};

Rewrite::Build scaled(Form f) {
  return [f](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, b.dims().symbol("s"), 8});
    ValueId y = b.matmul(x, f32_param(b, "w", f.trans ? std::vector<int64_t>{4, 8} : std::vector<int64_t>{8, 4}), false, f.trans);
    if (f.bias) y = b.add(f32_param(b, "bias", {1, 4}), y);
    const ValueId s = f.runtime ? f32_input(b, "scale", {4}) : f32_param(b, "scale", f.scale);
    std::vector<ValueId> out{f.swap ? b.mul(s, y) : b.mul(y, s)};
    if (f.tap) out.push_back(y);
    return out;
  };
}

// Returns whether no multiplication depends on the input.
bool folded(const Rewrite& r) {
  return count(r.result, "scale") == 1 && r.after->main().op(r.after->main().def(r.after->main().outputs()[0])) != OpKind::Mul;
}

}  // namespace

TEST_CASE("fold_scale: columns of a product, with and without bias, in both layouts") {
  for (const bool bias : {false, true})
    for (const bool trans : {false, true}) CHECK(folded(Rewrite(kPass, scaled({.bias = bias, .trans = trans, .swap = trans}))));
  CHECK(folded(Rewrite(kPass, scaled({.bias = true, .scale = {1, 1, 4}}))));
  CHECK(folded(Rewrite(kPass, scaled({.bias = true, .scale = {1}}))));
}

TEST_CASE("fold_scale: factors a row, known at run time, or of a sum that others read, stay") {
  CHECK_FALSE(Rewrite(kPass, scaled({.scale = {2, 1, 1}})).result.changed);
  CHECK_FALSE(Rewrite(kPass, scaled({.runtime = true})).result.changed);
  CHECK_FALSE(Rewrite(kPass, scaled({.tap = true})).result.changed);
}

TEST_CASE("fold_scale: channels of a convolution") {
  for (const bool bias : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ConvAttrs a{
          .strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .dilations = {1, 1}, .output_padding = {}, .groups = 2};
      const ValueId y = b.create(
          OpKind::Conv,
          {f32_input(b, "x", {2, 4, 5, 5}), f32_param(b, "w", {6, 2, 3, 3}), bias ? f32_param(b, "bias", {6}) : ValueId()}, a);
      return std::vector{b.mul(y, f32_param(b, "scale", {1, 6, 1, 1}))};
    });
    CHECK(folded(r));
  }
}

namespace {

// x w * s with known numbers.
Rewrite::Build known(std::vector<float> w, std::vector<float> s) {
  return [=](Builder& b) {
    const auto columns = static_cast<int64_t>(s.size()), rows = static_cast<int64_t>(w.size()) / columns;
    const ValueId x = f32_input(b, "x", {2, rows});
    const ValueId y = b.matmul(x, b.constant(make_data(DType::F32, {rows, columns}, w)));
    return std::vector{b.mul(y, b.constant(make_data(DType::F32, {columns}, s)))};
  };
}

}  // namespace

TEST_CASE("fold_scale: factors that move weights out of the range of f32 stay") {
  CHECK(folded(Rewrite(kPass, known({1, 2, 3, 4}, {0.5F, 1e30F}))));
  CHECK(folded(Rewrite(kPass, known({1, 1e-40F, 3, 4}, {0.5F, 0}))));    // one element may be small, and a factor 0
  CHECK(folded(Rewrite(kPass, known({1, 1e-40F, 3, 1e-40F}, {1, 2}))));  // which was out of range before
  for (const auto& [w, s] : {std::pair<float, float>{2, 3e38F}, {1e-20F, 1e-20F}, {1, INFINITY}, {0, INFINITY}, {1, NAN}}) {
    const Rewrite r(kPass, known({1, w, 1, w}, {1, s}));
    CHECK_FALSE(r.result.changed);
    CHECK(r.run.decisions.at(0).reason == "weight_range");
  }
}

TEST_CASE("fold_scale: factors that move weights out of the range of f16 stay if the precision policy converts weights") {
  using enum PrecisionPolicy;
  for (const PrecisionPolicy p : {F32, F16, AutoMixed, AutoMixedConservative, AutoMixedBf16}) {
    const bool narrow = p != F32 && p != AutoMixedBf16;
    for (const float s : {1e-6F, 1e6F}) {
      Module m;
      Builder b(m.main());
      for (ValueId v : known({1, 2, 3, 4}, {1, s})(b)) m.main().add_output(v, m.symbol("y"));
      PassRun run;
      run.options.precision = p;
      CHECK(run(m, kPass).changed == !narrow);
    }
  }
}
