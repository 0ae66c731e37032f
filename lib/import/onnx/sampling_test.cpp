// Operators that read or write images at computed positions, against loops over their definitions.
#include <algorithm>
#include <cmath>

#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

using Ints = std::vector<int64_t>;

void constant_ints(OnnxModel& m, const char* name, const Ints& v) {
  m.add(node("Constant", {}, {name}, {attribute("value_ints", v)}));
}

// Reads an image [H,W] with interpolation; it is 0 outside.
double bilinear(const double* image, int64_t h, int64_t w, double y, double x) {
  const auto y0 = static_cast<int64_t>(std::floor(y)), x0 = static_cast<int64_t>(std::floor(x));
  double sum = 0;
  for (int64_t i = y0; i <= y0 + 1; ++i)
    for (int64_t j = x0; j <= x0 + 1; ++j)
      if (i >= 0 && i < h && j >= 0 && j < w)
        sum += image[i * w + j] * (1 - std::abs(y - static_cast<double>(i))) * (1 - std::abs(x - static_cast<double>(j)));
  return sum;
}

}  // namespace

TEST_CASE("Col2Im adds overlapping blocks") {
  // 2 channels, blocks 2x3 with dilation 1x2 and stride 2x1 on an image 5x7 with pads.
  const int64_t h = 5, w = 7, kh = 2, kw = 3, top = 1, left = 0, bottom = 0, right = 2, rows = (h + top + bottom - kh) / 2 + 1,
                columns = w + left + right - 5 + 1;
  const auto x = some(static_cast<size_t>(2 * kh * kw * rows * columns), 1);
  OnnxModel m(18);
  m.input("x", DType::F32, {1, 2 * kh * kw, rows * columns}, x);
  constant_ints(m, "image", {h, w});
  constant_ints(m, "block", {kh, kw});
  m.add(node(
      "Col2Im", {"x", "image", "block"}, {"y"},
      {attribute("dilations", Ints{1, 2}), attribute("strides", Ints{2, 1}), attribute("pads", Ints{top, left, bottom, right})}));
  m.output("y");
  std::vector<double> y(static_cast<size_t>(2 * h * w), 0);
  for (int64_t c = 0; c < 2; ++c)
    for (int64_t i = 0; i < kh; ++i)
      for (int64_t j = 0; j < kw; ++j)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t s = 0; s < columns; ++s) {
            const int64_t at_y = r * 2 + i - top, at_x = s + 2 * j - left;
            if (at_y >= 0 && at_y < h && at_x >= 0 && at_x < w)
              y[static_cast<size_t>((c * h + at_y) * w + at_x)] +=
                  x[static_cast<size_t>((((c * kh + i) * kw + j) * rows + r) * columns + s)];
          }
  check_close(m.run()[0], y);
}

TEST_CASE("GridSample with a border: a cubic beyond the outermost pixel is not that pixel") {
  OnnxModel m(20);
  m.input("x", DType::F32, {1, 1, 1, 4}, {1, 2, 4, 8});
  // Positions -0.25 (within half a pixel of the border), -0.75 (beyond) and 1.
  m.input("grid", DType::F32, {1, 1, 3, 2}, {-0.875, 0, -1.125, 0, -0.25, 0});
  m.add(node("GridSample", {"x", "grid"}, {"y"}, {attribute("mode", "cubic"), attribute("padding_mode", "border")}));
  m.output("y");
  const auto cubic = [](double d) {  // Keys (1981), a = -0.75
    d = std::fabs(d);
    return d <= 1 ? (1.25 * d - 2.25) * d * d + 1 : ((-0.75 * d + 3.75) * d - 6) * d + 3;
  };
  const auto between = [&](double at) {  // -1 and 0
    double sum = 0;
    for (int p = -2; p <= 1; ++p) sum += cubic(at - p) * (p < 1 ? 1 : 2);
    return sum;
  };
  check_close(m.run()[0], {between(-0.25), between(-0.75), 2});
}

TEST_CASE("AffineGrid moves the positions of the pixels") {
  const auto theta = some(6, 2), solid = some(12, 3);
  for (const bool align : {false, true}) {
    OnnxModel m(20);
    m.input("theta", DType::F32, {1, 2, 3}, theta);
    m.input("solid", DType::F32, {1, 3, 4}, solid);
    constant_ints(m, "size", {1, 1, 3, 4});
    constant_ints(m, "volume", {1, 1, 2, 3, 2});
    m.add(node("AffineGrid", {"theta", "size"}, {"y"}, {attribute("align_corners", align)}));
    m.add(node("AffineGrid", {"solid", "volume"}, {"z"}, {attribute("align_corners", align)}));
    m.output("y");
    m.output("z");
    const auto place = [&](int64_t i, int64_t n) {
      return align ? -1 + 2.0 * static_cast<double>(i) / static_cast<double>(n - 1)
                   : -1 + (2.0 * static_cast<double>(i) + 1) / static_cast<double>(n);
    };
    std::vector<double> y, z;
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < 4; ++c)
        for (size_t k = 0; k < 2; ++k)
          y.push_back(theta[3 * k] * place(c, 4) + theta[3 * k + 1] * place(r, 3) + theta[3 * k + 2]);
    for (int64_t d = 0; d < 2; ++d)
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t c = 0; c < 2; ++c)
          for (size_t k = 0; k < 3; ++k)
            z.push_back(solid[4 * k] * place(c, 2) + solid[4 * k + 1] * place(r, 3) + solid[4 * k + 2] * place(d, 2) +
                        solid[4 * k + 3]);
    const auto got = m.run();
    check_close(got[0], y);
    check_close(got[1], z);
  }
}

TEST_CASE("DeformConv reads its taps at moved positions") {
  // 4 channels in 2 groups, 2 groups of offsets, kernel 2x2, stride 2x1, dilation 1x2, pads.
  const int64_t h = 5, w = 6, oh = 3, ow = 4, groups = 2, og = 2, out = 4;
  const auto x = some(static_cast<size_t>(4 * h * w), 4), weight = some(static_cast<size_t>(out * 2 * 4), 5),
             offset = some(static_cast<size_t>(og * 8 * oh * ow), 6), mask = some(static_cast<size_t>(og * 4 * oh * ow), 7),
             bias = some(4, 8);
  OnnxModel m(19);
  m.input("x", DType::F32, {1, 4, h, w}, x);
  m.input("w", DType::F32, {out, 2, 2, 2}, weight);
  m.input("offset", DType::F32, {1, og * 8, oh, ow}, offset);
  m.input("bias", DType::F32, {out}, bias);
  m.input("mask", DType::F32, {1, og * 4, oh, ow}, mask);
  m.add(node("DeformConv", {"x", "w", "offset", "bias", "mask"}, {"y"},
             {attribute("group", 2), attribute("offset_group", 2), attribute("strides", Ints{2, 1}),
              attribute("dilations", Ints{1, 2}), attribute("pads", Ints{1, 0, 1, 0})}));
  m.output("y");
  std::vector<double> y;
  for (int64_t o = 0; o < out; ++o)
    for (int64_t r = 0; r < oh; ++r)
      for (int64_t c = 0; c < ow; ++c) {
        double sum = bias[static_cast<size_t>(o)];
        for (int64_t i = 0; i < 2; ++i)
          for (int64_t t = 0; t < 4; ++t) {
            const int64_t channel = o / (out / groups) * 2 + i, g = channel / (4 / og);
            const auto moved = [&](int64_t which) {
              return offset[static_cast<size_t>(((g * 4 + t) * 2 + which) * oh * ow + r * ow + c)];
            };
            const double at_y = static_cast<double>(r * 2 - 1 + t / 2) + moved(0),
                         at_x = static_cast<double>(c + t % 2 * 2) + moved(1);
            sum += bilinear(x.data() + channel * h * w, h, w, at_y, at_x) *
                   mask[static_cast<size_t>((g * 4 + t) * oh * ow + r * ow + c)] *
                   weight[static_cast<size_t>((o * 2 + i) * 4 + t)];
          }
        y.push_back(sum);
      }
  check_close(m.run()[0], y);
}

TEST_CASE("RoiAlign with as many samples as regions are large") {
  const int64_t h = 8, w = 9, oh = 2, ow = 3;
  const auto x = some(static_cast<size_t>(2 * h * w), 12);
  const std::vector<double> rois{1, 0.5, 8, 6.5, 0, 0, 2.5, 1.25, 3, 4, 3.5, 7.75};
  OnnxModel m(16);
  m.input("x", DType::F32, {1, 2, h, w}, x);
  m.input("rois", DType::F32, {3, 4}, rois);
  m.input("batch", DType::I64, {3}, {0, 0, 0});
  m.add(node("RoiAlign", {"x", "rois", "batch"}, {"y"}, {attribute("output_height", oh), attribute("output_width", ow)}));
  m.output("y");
  std::vector<double> y;
  for (size_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          const double left = rois[4 * r] - 0.5, top = rois[4 * r + 1] - 0.5,
                       bin_w = (rois[4 * r + 2] - 0.5 - left) / static_cast<double>(ow),
                       bin_h = (rois[4 * r + 3] - 0.5 - top) / static_cast<double>(oh), across = std::ceil(bin_w),
                       down = std::ceil(bin_h);
          double sum = 0;
          for (double a = 0; a < down; ++a)
            for (double b = 0; b < across; ++b) {
              const double at_y = top + (static_cast<double>(i) + (a + 0.5) / down) * bin_h,
                           at_x = left + (static_cast<double>(j) + (b + 0.5) / across) * bin_w;
              const double y0 = std::clamp(at_y, 0.0, static_cast<double>(h - 1)),
                           x0 = std::clamp(at_x, 0.0, static_cast<double>(w - 1));
              if (at_y >= -1 && at_y <= static_cast<double>(h) && at_x >= -1 && at_x <= static_cast<double>(w))
                sum += bilinear(x.data() + c * h * w, h, w, y0, x0);
            }
          y.push_back(sum / (across * down));
        }
  check_close(m.run()[0], y);
}

TEST_CASE("MaxRoiPool takes the largest of each cell") {
  const int64_t h = 8, w = 9, ph = 3, pw = 2;
  const auto x = some(static_cast<size_t>(2 * 2 * h * w), 9);
  const std::vector<double> rois{0, 2, 1, 11, 9, 1, 0, 0, 3, 3, 1, 14, 12, 30, 30};
  OnnxModel m(16);
  m.input("x", DType::F32, {2, 2, h, w}, x);
  m.input("rois", DType::F32, {3, 5}, rois);
  m.add(node("MaxRoiPool", {"x", "rois"}, {"y"}, {attribute("pooled_shape", Ints{ph, pw}), attribute("spatial_scale", 0.5)}));
  m.output("y");
  std::vector<double> y;
  for (size_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t i = 0; i < ph; ++i)
        for (int64_t j = 0; j < pw; ++j) {
          const auto border = [&](size_t k) { return std::round(rois[r * 5 + k] * 0.5); };
          const auto cell = [](double start, double end, int64_t count, int64_t k, int64_t limit) {
            const double size = std::max(end - start + 1, 1.0) / static_cast<double>(count);
            const double low = start + std::floor(static_cast<double>(k) * size),
                         high = start + std::ceil(static_cast<double>(k + 1) * size);
            return std::pair{std::clamp<int64_t>(static_cast<int64_t>(low), 0, limit),
                             std::clamp<int64_t>(static_cast<int64_t>(high), 0, limit)};
          };
          const auto [top, bottom] = cell(border(2), border(4), ph, i, h);
          const auto [left, right] = cell(border(1), border(3), pw, j, w);
          double best = -1e30;
          for (int64_t a = top; a < bottom; ++a)
            for (int64_t b = left; b < right; ++b)
              best = std::max(best, x[static_cast<size_t>(((static_cast<int64_t>(rois[r * 5]) * 2 + c) * h + a) * w + b)]);
          y.push_back(best == -1e30 ? 0 : best);
        }
  check_close(m.run()[0], y);
}

TEST_CASE("a size that is not known is scaled by the fraction that a scale is next to") {
  const auto scaled = [](double scale, int64_t size) {
    OnnxModel m(19);
    m.raw_graph(field(11, value_info("x", DType::F32, {1, 1, -1})));
    m.add(node("Constant", {}, {"scales"}, {attribute("value_floats", std::vector<double>{1, 1, scale})}));
    m.add(node("Resize", {"x", "", "scales"}, {"y"}, {attribute("mode", "linear")}));
    m.output("y");
    Diagnostics d;
    const auto module = m.load(d);
    REQUIRE_MESSAGE(module, d.text());
    const std::vector<eval::HostValue> x = {eval::tensor_of(DType::F32, {1, 1, size}, some(static_cast<size_t>(size), 1))};
    const auto y = eval::evaluate(*module, x, d);
    REQUIRE_MESSAGE(y, d.text());
    return (*y)[0].tensor.dims[2];
  };
  for (const int64_t size : {1, 2, 3, 10, 11, 29, 30, 31, 300, 601})
    for (const double scale : {1.0 / 3, 0.7, 1.5, 2.2, 1.0 / 300})
      CHECK(scaled(scale, size + 300) ==
            static_cast<int64_t>(std::floor(static_cast<double>(size + 300) * static_cast<float>(scale))));
}

TEST_CASE("a region to redata-dependent dim") {
  for (const char* mode : {"linear", "nearest"}) {
    OnnxModel m(17);
    m.input("x", DType::F32, {2, 2, 5, 6}, some(120, 5));
    m.input("region", DType::F32, {4}, {0.2, -0.13, 0.8, 1.12});
    m.add(node("Constant", {}, {"low"}, {attribute("value_floats", std::vector<double>{0, 0})}));
    m.add(node("Constant", {}, {"high"}, {attribute("value_floats", std::vector<double>{1, 1})}));
    m.add(node("Constant", {}, {"roi"}, {attribute("value_floats", std::vector<double>{0, 0, 0.2, -0.13, 1, 1, 0.8, 1.12})}));
    m.add(node("Constant", {}, {"sizes"}, {attribute("value_ints", std::vector<int64_t>{2, 2, 4, 7})}));
    m.add(node("Split", {"region"}, {"starts", "ends"}));
    m.add(node("Concat", {"low", "starts", "high", "ends"}, {"computed"}, {attribute("axis", 0)}));
    const std::vector<std::string> how{attribute("coordinate_transformation_mode", "tf_crop_and_resize"),
                                       attribute("extrapolation_value", 9.0), attribute("mode", mode)};
    m.add(node("Resize", {"x", "computed", "", "sizes"}, {"y"}, how));
    m.add(node("Resize", {"x", "roi", "", "sizes"}, {"y2"}, how));
    m.output("y");
    m.output("y2");
    const auto got = m.run();
    check_close(got[0], got[1], 1e-4);
  }
}
