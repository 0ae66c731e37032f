// Fourier transforms and windows.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "import/onnx/dynamic.h"
#include "import/onnx/handlers.h"
#include "support/saturate.h"

namespace rlxc::onnx_import {

void dft(Op& op) {
  FftAttrs a;
  int64_t axis_value = op.opset < 20 ? op.i("axis", 1) : -2;
  const bool axis_of_run = op.opset >= 20 && op.is_of_run(2);
  if (op.opset >= 20 && op.has(2) && !axis_of_run) {
    const auto v = op.need_ints(2, "axis");
    if (!v) return;
    if (v->size() != 1) return (void)op.fail(Code::BadShape, "the axis must be one number");
    axis_value = (*v)[0];
  }
  const auto axis = op.axis(axis_value, op.rank(0));
  if (!axis) return;
  a.axis = *axis;
  a.inverse = op.i("inverse", 0) != 0;
  ValueId x;
  a.onesided = op.i("onesided", 0) != 0;
  a.norm = a.inverse ? FftNorm::InverseN : FftNorm::None;
  if (op.is_of_run(1) && !axis_of_run && !(a.inverse && a.onesided)) {  // the signal gets the length before
    const ValueId own = op.b.create(OpKind::DimValue, {}, DimsAttrs{{op.sizes(0)[static_cast<size_t>(*axis)]}, true});
    const ValueId more = op.b.sub(op.b.reshape(op.b.cast(op.in(1), DType::I64), {Dim(1)}), own);
    const ValueId pads = op.b.concat(std::array{op.b.ints({0}), more}, 0);
    x = pad_by_data(op, op.in(0), pads, {*axis}, PadMode::Constant, op.b.scalar(op.dtype(0), 0));
  } else if (op.has(1)) {
    const auto n = op.need_dims(1, "length");
    if (!n) return;
    if (n->size() != 1) return (void)op.fail(Code::BadShape, "the length must be one number");
    a.length = (*n)[0];
    if (const auto v = op.dims().constant_value(a.length); v && *v < 1)
      return (void)op.fail(Code::BadAttribute, "the length is " + std::to_string(*v) + ", must be >= 1");
  } else if (a.inverse && a.onesided) {  // a one-sided spectrum of an even length n has n/2 + 1 elements
    a.length = op.dims().mul(Dim(2), op.dims().sub(op.sizes(0)[static_cast<size_t>(*axis)], Dim(1)));
  }
  if (axis_of_run) return transform_by_data(op, a);
  op.set(0, op.b.create(OpKind::Fft, {x.valid() ? x : op.in(0)}, a));
}

// Gathers frames of the signal by index, applies the window, transforms.
void stft(Op& op) {
  const auto step = op.need_ints(1, "frame_step");
  if (!step) return;
  std::optional<int64_t> length;
  if (op.has(3)) {
    const auto v = op.need_ints(3, "frame_length");
    if (!v || v->empty()) return;
    length = (*v)[0];
  } else if (op.has(2) && op.rank(2) == 1) {
    length = op.dims().constant_value(op.sizes(2)[0]);
  }
  if (!length || *length < 1 || step->size() != 1 || (*step)[0] < 1)
    return (void)op.fail(Code::BadAttribute, "frame_step and frame_length must be known and positive");
  if (op.rank(0) != 3 && op.rank(0) != 2)
    return (void)op.fail(Code::BadShape, "the signal must be [batch, length, 1 or 2]: " + op.show(0));
  ValueId x = op.in(0);
  if (op.rank(0) == 2) x = op.b.reshape(x, {op.sizes(0)[0], op.sizes(0)[1], Dim(1)});
  const Dim frames = op.dims().add(op.dims().floor_div(op.dims().sub(op.sizes(0)[1], Dim(*length)), Dim((*step)[0])), Dim(1));
  const ValueId zero = op.b.scalar(DType::I64, 0), one = op.b.scalar(DType::I64, 1);
  const ValueId starts =
      op.b.create(OpKind::Range, {zero, op.b.scalar(DType::I64, static_cast<double>((*step)[0]))}, DimsAttrs{{frames}, false});
  const ValueId within = op.b.create(OpKind::Range, {zero, one}, DimsAttrs{{Dim(*length)}, false});
  const ValueId index = op.b.add(op.b.reshape(starts, {frames, Dim(1)}), within);
  ValueId y = op.b.create(OpKind::Gather, {x, index}, AxisAttrs{1});
  if (op.has(2)) y = op.b.mul(y, op.b.reshape(op.in(2), {Dim(*length), Dim(1)}));
  FftAttrs a;
  a.axis = 2;
  a.onesided = op.i("onesided", 1) != 0;
  op.set(0, op.b.create(OpKind::Fft, {y}, a));
}

// Triangular filters of equal width on the mel scale, over the bins of a spectrum. All operands are constants.
void mel_weight_matrix(Op& op) {
  std::array<double, 5> v{};  // bands, DFT length, sample rate, lower and upper edge in hertz
  for (size_t i = 0; i < 5; ++i) {
    const auto one = op.need_reals(i, "parameters");
    if (!one) return;
    if (one->size() != 1) return (void)op.fail(Code::BadShape, "input " + std::to_string(i) + " must be one number");
    v[i] = (*one)[0];
  }
  const auto to = dtype_from_onnx(static_cast<int>(op.i("output_datatype", 1) & 0xFFFF));
  if (!to || !is_float(*to)) return (void)op.unsupported("output_datatype must be a float type");
  if (!(v[0] >= 1 && v[0] <= 1 << 14 && v[1] >= 1 && v[1] <= 1 << 20 && v[2] >= 1 && v[3] >= 0 && v[4] >= v[3] && v[4] <= v[2]))
    return (void)op.fail(Code::BadAttribute, "the parameters are out of range");
  const auto bands = static_cast<int64_t>(v[0]), bins = static_cast<int64_t>(v[1]) / 2 + 1;
  if (bands * bins > 1 << 24) return (void)op.fail(Code::TooLarge, "the matrix is too large");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(v[3]), step = (mel(v[4]) - low) / static_cast<double>(bands + 2);
  std::vector<int64_t> edge;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    edge.push_back(std::min(saturating_cast<int64_t>(std::floor((v[1] + 1) * hertz / v[2])), bins - 1));
  }
  std::vector<float> y(static_cast<size_t>(bands * bins), 0);
  for (size_t i = 0; i < static_cast<size_t>(bands); ++i) {
    const int64_t a = edge[i], peak = edge[i + 1], z = edge[i + 2];
    const auto cell = [&](int64_t bin) -> float& { return y[static_cast<size_t>(bin * bands) + i]; };
    if (peak == a) cell(peak) = 1;
    for (int64_t bin = a; bin <= peak && peak > a; ++bin) cell(bin) = static_cast<float>(bin - a) / static_cast<float>(peak - a);
    for (int64_t bin = peak; bin < z; ++bin) cell(bin) = static_cast<float>(z - bin) / static_cast<float>(z - peak);
  }
  op.set(0, op.b.cast(op.im.materialise(op.im.constant(make_data(DType::F32, {bins, bands}, y))), *to));
}

// a0 - a1*cos(2*pi*n/N) + a2*cos(4*pi*n/N); the row's alpha and beta are a0 and a1.
void window(Op& op) {
  const auto to = dtype_from_onnx(static_cast<int>(op.i("output_datatype", 1) & 0xFFFF));
  if (!to || !is_float(*to)) return (void)op.unsupported("output_datatype must be a float type");
  const auto size = op.need_dims(0, "size");
  if (!size) return;
  if (size->size() != 1) return (void)op.fail(Code::BadShape, "the size must be one number");
  const bool periodic = op.i("periodic", 1) != 0;
  Known period;
  period.v.push_back({periodic ? (*size)[0] : op.dims().sub((*size)[0], Dim(1))});
  const ValueId n = op.b.cast(op.im.materialise(op.im.known_value(std::move(period))), DType::F32);
  const ValueId at =
      op.b.create(OpKind::Range, {op.b.scalar(DType::F32, 0), op.b.scalar(DType::F32, 1)}, DimsAttrs{*size, false});
  const ValueId angle = op.b.div(op.b.mul(at, op.b.scalar(DType::F32, 2 * std::numbers::pi)), n);
  const double a0 = op.row.alpha, a1 = op.row.beta, a2 = a0 + a1 == 1 ? 0 : 0.08;
  ValueId y = op.b.sub(op.b.scalar(DType::F32, a0), op.b.mul(op.b.unary(OpKind::Cos, angle), op.b.scalar(DType::F32, a1)));
  if (a2 != 0) {
    const ValueId twice = op.b.unary(OpKind::Cos, op.b.mul(angle, op.b.scalar(DType::F32, 2)));
    y = op.b.add(y, op.b.mul(twice, op.b.scalar(DType::F32, a2)));
  }
  op.set(0, op.b.cast(y, *to));
}

}  // namespace rlxc::onnx_import
