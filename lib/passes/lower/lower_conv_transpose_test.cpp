#include <random>

#include "support/random.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "lower_conv_transpose";

}  // namespace

TEST_CASE("lower_conv_transpose: any window, stride, dilation, pads and groups") {
  std::mt19937 random(5);
  const auto pick = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(random() % (high - low + 1)); };
  for (int round = 0; round < 60; ++round) {
    const auto rank = static_cast<size_t>(pick(1, 3));
    ConvAttrs a;
    a.groups = pick(1, 2);
    std::vector<Dim> image{Dim(2), Dim(2 * a.groups)};
    std::vector<int64_t> window{2 * a.groups, 3};
    for (size_t d = 0; d < rank; ++d) {
      const int64_t size = pick(1, 4), kernel = pick(1, 4), stride = pick(1, 3), dilation = pick(1, 2);
      const int64_t all = (size - 1) * stride + dilation * (kernel - 1) + 1;
      const int64_t begin = pick(-1, std::min<int64_t>(3, all - 1)), end = pick(-1, std::max<int64_t>(all - 1 - begin, -1));
      image.emplace_back(size), window.push_back(kernel);
      a.strides.push_back(stride), a.dilations.push_back(dilation);
      a.pads_begin.push_back(begin), a.pads_end.push_back(end);
      a.output_padding.push_back(pick(0, stride - 1));
    }
    const bool bias = pick(0, 1) == 1;
    CAPTURE(round);
    const Rewrite r(kPass, [&](Builder& b) {
      return std::vector{b.create(
          OpKind::ConvTranspose,
          {f32_input(b, "x", image), f32_param(b, "w", window), bias ? f32_param(b, "bias", {3 * a.groups}) : ValueId()}, a)};
    });
    CHECK_FALSE(r.find(OpKind::ConvTranspose).valid());
  }
}

TEST_CASE("lower_conv_transpose: activations stay in the convolution, residuals are added to the result") {
  for (const bool residual : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ConvAttrs conv{
          .strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .dilations = {1, 1}, .output_padding = {}};
      const ValueId skip = residual ? f32_input(b, "skip", {b.dims().symbol("n"), 3, 8, 10}) : ValueId();
      return std::vector{b.create(OpKind::FusedConvTransposeBiasAct,
                                  {f32_input(b, "x", {b.dims().symbol("n"), 2, 4, 5}), f32_param(b, "w", {2, 3, 4, 4}), {}, skip},
                                  FusedConvAttrs{conv, {true, OpKind::Relu, 0, 0}})};
    });
    CHECK(r.find(residual ? OpKind::Conv : OpKind::FusedConvBiasAct).valid());
    CHECK(r.find(OpKind::Relu).valid() == residual);
  }
}

TEST_CASE("lower_conv_transpose: an empty result stays") {
  const Rewrite r(kPass, [](Builder& b) {
    const ConvAttrs a{.strides = {1}, .pads_begin = {1}, .pads_end = {1}, .dilations = {1}, .output_padding = {}};
    return std::vector{b.create(OpKind::ConvTranspose, {f32_input(b, "x", {1, 2, 1}), f32_param(b, "w", {2, 3, 2})}, a)};
  });
  CHECK(r.left() == "conv_transpose");
}
