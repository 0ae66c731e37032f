#include <cmath>
#include <complex>

#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;
using enum OpKind;

namespace {
HostValue f64(std::vector<int64_t> d, std::vector<double> v) { return tensor_of(DType::F64, std::move(d), v); }
FftAttrs fft(bool inverse, bool onesided, FftNorm norm, int64_t length = 0) {
  FftAttrs a;
  a.axis = 1, a.inverse = inverse, a.onesided = onesided, a.norm = norm, a.length = Dim(length);
  return a;
}
ResizeAttrs resize(std::vector<int64_t> sizes, ResizeMode mode, CoordMode coord, std::vector<double> scales = {}) {
  ResizeAttrs a;
  for (int64_t n : sizes) a.sizes.push_back(Dim(n));
  a.mode = mode, a.coord = coord, a.scales = std::move(scales);
  return a;
}
}  // namespace

TEST_CASE("fft: any length against the definition, inverses, halves") {
  for (const int64_t n : {1, 2, 3, 8, 12, 31, 64}) {
    std::vector<double> x;
    for (int64_t i = 0; i < 2 * n; ++i) x.push_back(std::sin(static_cast<double>(i * i) + 0.3));
    std::vector<double> want;
    for (int64_t k = 0; k < n; ++k) {
      std::complex<double> sum;
      for (int64_t t = 0; t < n; ++t)
        sum += std::complex<double>(x[static_cast<size_t>(2 * t)], x[static_cast<size_t>(2 * t + 1)]) *
               std::polar(1.0, -2 * M_PI * static_cast<double>(k * t) / static_cast<double>(n));
      want.push_back(sum.real()), want.push_back(sum.imag());
    }
    const auto y = run1(Fft, fft(false, false, FftNorm::None), {f64({1, n, 2}, x)});
    check_close(y, f64({1, n, 2}, want), 1e-11, 1e-11);
    check_close(run1(Fft, fft(true, false, FftNorm::InverseN), {y}), f64({1, n, 2}, x), 1e-11, 1e-11);
  }
  const auto real = f64({1, 6, 1}, {1, 4, -2, 0.5, 3, 7});
  const auto half = run1(Fft, fft(false, true, FftNorm::None), {real});
  CHECK(half.tensor.dims == std::vector<int64_t>{1, 4, 2});
  check_close(run1(Fft, fft(true, true, FftNorm::InverseN, 6), {half}), real, 1e-12, 1e-12);
  check_values(run1(Fft, fft(false, false, FftNorm::None, 2), {real}), {5, 0, -3, 0});
}

TEST_CASE("resize: values known from the ONNX operator tests") {
  const auto x = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  check_values(run1(Resize, resize({1, 1, 4, 6}, ResizeMode::Nearest, CoordMode::HalfPixel), {x}),
               {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  check_values(run1(Resize, resize({1, 1, 4, 4}, ResizeMode::Linear, CoordMode::HalfPixel), {x}),
               {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  check_values(run1(Resize, resize({1, 1, 4, 4}, ResizeMode::Linear, CoordMode::AlignCorners), {x}),
               {1, 4.0 / 3, 5.0 / 3, 2, 5.0 / 3, 2, 7.0 / 3, 8.0 / 3, 7.0 / 3, 8.0 / 3, 3, 10.0 / 3, 3, 10.0 / 3, 11.0 / 3, 4});
  const auto row = f32({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  check_values(run1(Resize, resize({1, 1, 1, 2}, ResizeMode::Linear, CoordMode::HalfPixel, {1, 1, 0.6, 0.6}), {row}),
               {2.6666665, 4.3333331}, 1e-6);
  check_values(run1(Resize, resize({1, 1, 1, 2}, ResizeMode::Linear, CoordMode::AlignCorners, {1, 1, 0.6, 0.6}), {row}),
               {1, 3.142857}, 1e-6);
  std::vector<double> grid;
  for (int i = 1; i <= 16; ++i) grid.push_back(i);
  const auto g = f32({1, 1, 4, 4}, grid);
  check_values(run1(Resize, resize({1, 1, 3, 3}, ResizeMode::Cubic, CoordMode::HalfPixel, {1, 1, 0.8, 0.8}), {g}),
               {1.47119141, 2.78125, 4.08251953, 6.71142578, 8.02148438, 9.32275391, 11.91650391, 13.2265625, 14.52783203}, 1e-6);
  ResizeAttrs crop = resize({1, 1, 3, 3}, ResizeMode::Linear, CoordMode::TfCropAndResize);
  crop.roi = {0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7}, crop.extrapolation = 10;
  check_values(run1(Resize, crop, {g}), {7.6000004, 10, 10, 12.400001, 10, 10, 10, 10, 10}, 1e-6);
  ResizeAttrs smooth = resize({1, 1, 2, 2}, ResizeMode::Linear, CoordMode::HalfPixel, {1, 1, 0.6, 0.6});
  smooth.antialias = true;
  check_values(run1(Resize, smooth, {g}), {2.875, 4.5, 9.375, 11.0}, 1e-6);
}

TEST_CASE("quantize: rounding, saturation, axes, blocks") {
  QuantAttrs q;
  q.to = DType::U8;
  check_values(run1(Quantize, q, {f32({6}, {0, 2, 3, 1000, -254, -1000}), f32({}, {2}), tensor_of(DType::U8, {}, {128})}),
               {128, 129, 130, 255, 1, 0});
  q.to = DType::I8, q.axis = 1;
  check_values(run1(Quantize, q, {f32({1, 2, 2}, {1, 3, 10, 25}), f32({2}, {2, 10})}), {0, 2, 1, 2});
  q.axis = 0, q.block = 2, q.to = DType::I4;
  check_values(run1(Quantize, q, {f32({3, 1}, {1, -20, 3}), f32({2, 1}, {1, 0.5})}), {1, -8, 6});
  QuantAttrs d;
  d.to = DType::F32, d.axis = 1, d.block = 2;
  check_values(run1(Dequantize, d,
                    {tensor_of(DType::U4, {1, 4}, {1, 2, 3, 15}), f32({1, 2}, {2, 10}), tensor_of(DType::U4, {1, 2}, {1, 5})}),
               {0, 2, -20, 100});
  QuantAttrs f;
  f.to = DType::F8E4M3FN;
  check_values(run1(Quantize, f, {f32({3}, {1, 1000, 0.3}), f32({}, {2})}), {0.5, 448, 0.15625});
}

TEST_CASE("integer contractions with zero points") {
  const auto a = tensor_of(DType::U8, {2, 2}, {11, 7, 3, 10}), b = tensor_of(DType::I8, {2, 2}, {1, -4, 2, 5});
  check_values(run1(QMatMul, NoAttrs{}, {a, b, tensor_of(DType::U8, {2}, {12, 1}), tensor_of(DType::I8, {2}, {1, 0})}),
               {-5, -21, 9, 37});
  ConvAttrs c;
  c.strides = {1}, c.pads_begin = {1}, c.pads_end = {0}, c.dilations = {1};
  check_values(run1(QConv, c,
                    {tensor_of(DType::U8, {1, 1, 3}, {5, 6, 7}), tensor_of(DType::U8, {1, 1, 2}, {2, 3}),
                     tensor_of(DType::U8, {}, {5}), tensor_of(DType::U8, {1}, {1})}),
               {0, 2, 5});
}
