#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "conv_transpose_to_matmul";

struct Shape {
  std::vector<Dim> image;
  int64_t groups = 1, dilation = 1, pad = 0;
};

std::string ops_of(const Shape& s) {
  const Rewrite r(kPass, [&](Builder& b) {
    const ConvAttrs a{.strides = {2, 1},
                      .pads_begin = {s.pad, 0},
                      .pads_end = {0, 2},
                      .dilations = {s.dilation, 1},
                      .output_padding = {},
                      .groups = s.groups};
    return std::vector{
        b.create(OpKind::ConvTranspose,
                 {f32_input(b, "x", s.image), f32_param(b, "w", {6, 2, 4, 5}), f32_param(b, "bias", {2 * s.groups})}, a)};
  });
  return r.find(OpKind::MatMul).valid() ? "matmul" : r.left();
}

}  // namespace

TEST_CASE("conv_transpose_to_matmul: an image of one pixel scales the window") {
  CHECK(ops_of({{3, 6, 1, 1}}) == "matmul");
  CHECK(ops_of({{3, 6, 1, 1}, 1, 1, 1}) == "matmul");
}

TEST_CASE("conv_transpose_to_matmul: more pixels, groups, dilation and negative pads stay") {
  CHECK(ops_of({{3, 6, 1, 2}}) == "conv_transpose");
  CHECK(ops_of({{3, 6, 1, 1}, 2}) == "conv_transpose");
  CHECK(ops_of({{3, 6, 1, 1}, 1, 2}) == "conv_transpose");
  CHECK(ops_of({{3, 6, 1, 1}, 1, 1, -1}) == "conv_transpose");
}
