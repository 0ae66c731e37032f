#include <random>

#include "support/random.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "crop_conv_windows";

}  // namespace

TEST_CASE("crop_conv_windows: any window, stride, dilation and pads") {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(random() % (high - low + 1)); };
  int cropped = 0;
  for (int round = 0; round < 60; ++round) {
    ConvAttrs a;
    std::vector<Dim> image{Dim(2), Dim(3)};
    std::vector<int64_t> window{4, 3};
    for (int64_t d = pick(1, 3); d > 0; --d) {
      const int64_t size = pick(1, 4), kernel = pick(1, 5), dilation = pick(1, 4), reach = dilation * (kernel - 1) + 1;
      const int64_t begin = pick(0, 6), end = pick(std::max<int64_t>(reach - size - begin, 0), reach + 2);
      image.emplace_back(size), window.push_back(kernel);
      a.strides.push_back(pick(1, 3)), a.dilations.push_back(dilation);
      a.pads_begin.push_back(begin), a.pads_end.push_back(end);
    }
    const bool fused = pick(0, 1) == 1;
    CAPTURE(round);
    const Rewrite r(kPass, [&](Builder& b) {
      const std::vector operands{f32_input(b, "x", image), f32_param(b, "w", window), f32_param(b, "bias", {4})};
      return std::vector{!fused ? b.create(OpKind::Conv, operands, a)
                                : b.create(OpKind::FusedConvBiasAct, {operands[0], operands[1], operands[2], {}},
                                           FusedConvAttrs{a, {true, OpKind::Relu, 0, 0}})};
    });
    cropped += r.find(OpKind::Narrow).valid();
  }
  CHECK(cropped > 20);
}

TEST_CASE("crop_conv_windows: a dilated window over a small image becomes a window of one tap") {
  const Rewrite r(kPass, [](Builder& b) {
    const ConvAttrs a{
        .strides = {1, 1}, .pads_begin = {12, 12}, .pads_end = {12, 12}, .dilations = {12, 12}, .output_padding = {}};
    return std::vector{b.create(OpKind::Conv, {f32_input(b, "x", {1, 3, 7, 7}), f32_param(b, "w", {4, 3, 3, 3})}, a)};
  });
  const NodeId conv = r.find(OpKind::Conv);
  CHECK(r.after->main().attrs<ConvAttrs>(conv).pads_begin == std::vector<int64_t>{0, 0});
  CHECK(r.after->main().dims(r.after->main().operand(conv, 1))[2] == Dim(1));
}

TEST_CASE("crop_conv_windows: taps that meet the image, sizes that are not known, and computed weights stay") {
  for (int which = 0; which < 3; ++which) {
    const Rewrite r(kPass, [&](Builder& b) {
      const int64_t pad = which == 0 ? 1 : 2;
      const ConvAttrs a{.strides = {1}, .pads_begin = {pad}, .pads_end = {pad}, .dilations = {pad}, .output_padding = {}};
      const ValueId w = which == 2 ? f32_input(b, "w", {4, 3, 3}) : f32_param(b, "w", {4, 3, 3});
      return std::vector{b.create(OpKind::Conv, {f32_input(b, "x", {1, 3, which == 1 ? b.dims().symbol("n") : Dim(2)}), w}, a)};
    });
    CHECK(r.left() == "conv");
  }
}
