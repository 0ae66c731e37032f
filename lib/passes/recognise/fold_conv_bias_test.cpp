#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fold_conv_bias";

const ConvAttrs kUnit{.strides = {1, 1}, .pads_begin = {0, 1}, .pads_end = {0, 1}, .dilations = {1, 1}, .output_padding = {}};

Rewrite::Build padded(std::vector<Dim> before, std::vector<Dim> after, double value = 0, PadMode mode = PadMode::Constant) {
  return [=](Builder& b) {
    const ValueId x = b.create(OpKind::Pad, {f32_input(b, "x", {2, 4, 5, 5}), num(b, value)}, PadAttrs{before, after, mode});
    const Dim channels = b.graph().dims(x)[1];
    return std::vector{b.create(OpKind::Conv, {x, f32_param(b, "w", {6, channels.size(), 3, 3})}, kUnit)};
  };
}

// Codes of zero point 7, padded with another code.
Rewrite::Build padded_codes(double fill, bool read = false) {
  return [=](Builder& b) {
    const ValueId x = b.input("x", tensor_type(DType::U8, {2, 4, 5, 5}));
    const ValueId codes =
        b.create(OpKind::Pad, {x, b.scalar(DType::U8, fill)}, PadAttrs{{0, 0, 1, 0}, {0, 0, 0, 2}, PadMode::Constant});
    const ValueId v =
        b.create(OpKind::Dequantize, {codes, num(b, 0.05), b.scalar(DType::U8, 7)}, QuantAttrs{0, 0, DType::F32, true});
    std::vector<ValueId> results{b.create(OpKind::Conv, {v, f32_param(b, "w", {6, 4, 3, 3})}, kUnit)};
    if (read) results.push_back(v);
    return results;
  };
}

Rewrite::Build biased(std::vector<int64_t> dims, bool has_bias = false) {
  return [=](Builder& b) {
    const ValueId y = b.create(
        OpKind::Conv,
        {f32_input(b, "x", {2, 4, 5, 5}), f32_param(b, "w", {6, 4, 3, 3}), has_bias ? f32_param(b, "first", {6}) : ValueId()},
        kUnit);
    return std::vector{b.add(f32_param(b, "bias", dims), y)};
  };
}

}  // namespace

TEST_CASE("fold_conv_bias: zeros around the picture become padding") {
  const Rewrite r(kPass, padded({0, 0, 1, 0}, {0, 0, 2, 1}));
  CHECK(r.left() == "conv");
  const auto& a = r.after->main().attrs<ConvAttrs>(r.find(OpKind::Conv));
  CHECK(a.pads_begin == std::vector<int64_t>{1, 1});
  CHECK(a.pads_end == std::vector<int64_t>{2, 2});
}

TEST_CASE("fold_conv_bias: zero points around the picture become padding") {
  const Rewrite r(kPass, padded_codes(7));
  CHECK(r.left() == "dequantize conv");
  CHECK(r.after->main().attrs<ConvAttrs>(r.find(OpKind::Conv)).pads_end == std::vector<int64_t>{0, 3});
  CHECK(Rewrite(kPass, padded_codes(7, true)).left() == "pad dequantize dequantize conv");
  CHECK_FALSE(Rewrite(kPass, padded_codes(0)).result.changed);
}

TEST_CASE("fold_conv_bias: other values, modes, axes and cropping are no padding") {
  CHECK_FALSE(Rewrite(kPass, padded({0, 0, 1, 1}, {0, 0, 1, 1}, 1)).result.changed);
  CHECK_FALSE(Rewrite(kPass, padded({0, 0, 1, 1}, {0, 0, 1, 1}, 0, PadMode::Reflect)).result.changed);
  CHECK_FALSE(Rewrite(kPass, padded({0, 1, 1, 1}, {0, 0, 1, 1})).result.changed);
}

TEST_CASE("fold_conv_bias: one number a channel becomes the bias") {
  CHECK(Rewrite(kPass, biased({1, 6, 1, 1})).left() == "reshape conv");
  CHECK(Rewrite(kPass, biased({6, 1, 1})).left() == "reshape conv");
  CHECK(Rewrite(kPass, biased({1, 6, 1, 1}, true)).left() == "reshape add conv");
  CHECK_FALSE(Rewrite(kPass, biased({5})).result.changed);
  CHECK_FALSE(Rewrite(kPass, biased({6, 3, 1})).result.changed);
}

TEST_CASE("fold_conv_bias: a convolution that is an output stays") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId y = b.create(OpKind::Conv, {f32_input(b, "x", {2, 4, 5, 5}), f32_param(b, "w", {6, 4, 3, 3})}, kUnit);
    return std::vector{y, b.add(y, f32_param(b, "bias", {6, 1, 1}))};
  });
  CHECK_FALSE(r.result.changed);
}
