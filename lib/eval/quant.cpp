// Quantization, and integer contractions with zero points.
#include <algorithm>
#include <utility>

#include "eval/conv.h"
#include "eval/gemm.h"
#include "eval/norm.h"
#include "ir/region.h"

namespace rlxc::eval {
namespace {

// Maps elements to scales: one per tensor, per coordinate of an axis, or per block along an axis.
class ScaleIndex {
 public:
  static std::optional<ScaleIndex> of(Context& c, const QuantAttrs& a) {
    const auto &x = c.dims(0), &s = c.dims(1);
    ScaleIndex r;
    if (c.has(2) && c.t(2).elements() != c.t(1).elements()) {
      c.fail("scale and zero point must have one shape");
      return std::nullopt;
    }
    if (c.t(1).elements() == 1) return r;
    if (a.axis < 0 || a.axis >= static_cast<int64_t>(x.size())) {
      c.fail("axis " + std::to_string(a.axis) + " is out of range");
      return std::nullopt;
    }
    const auto k = static_cast<size_t>(a.axis);
    const Split split = split_at(x, a.axis);
    r.n_ = split.n;
    r.inner_ = split.inner;
    if (a.block == 0) {
      if (c.t(1).elements() != x[k]) {
        c.fail("needs one scale per coordinate of the axis, has " + show(c.t(1).dtype, s));
        return std::nullopt;
      }
      r.rows_ = x[k];
      r.per_axis_ = true;
      return r;
    }
    auto want = x;
    want[k] = (x[k] + a.block - 1) / a.block;
    if (a.block < 0 || s != want) {
      c.fail("blocked scales must be " + show(c.t(1).dtype, want) + ", are " + show(c.t(1).dtype, s));
      return std::nullopt;
    }
    r.block_ = a.block;
    r.rows_ = want[k];
    return r;
  }
  size_t operator()(int64_t i) const {
    if (rows_ == 0) return 0;
    const int64_t k = i / inner_ % n_;
    if (per_axis_) return static_cast<size_t>(k);
    return static_cast<size_t>((i / inner_ / n_ * rows_ + k / block_) * inner_ + i % inner_);
  }

 private:
  int64_t n_ = 1, inner_ = 1, block_ = 1, rows_ = 0;
  bool per_axis_ = false;
};

// Rounds the quotient to the operand precision, so that ties are those of a float division.
double quotient(double x, double scale, DType t) {
  return t == DType::F64 ? x / scale : static_cast<double>(static_cast<float>(x / scale));
}

bool eval_quantize(Context& c) {
  const auto& a = c.a<QuantAttrs>();
  const auto index = ScaleIndex::of(c, a);
  if (!index) return false;
  auto x = c.doubles(0);
  const auto scale = c.doubles(1), zero = c.optional_doubles(2);
  if (!c.charge(4.0 * static_cast<double>(x.size()))) return false;
  const bool to_int = is_integer(a.to);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t s = (*index)(static_cast<int64_t>(i));
    double q = quotient(x[i], scale[s], c.t(0).dtype);
    if (to_int) q = ops::round_even(q);
    x[i] = q + (zero.empty() ? 0 : zero[s]);
  }
  TensorData d;
  if (!c.make_result(0, &d)) return false;
  store(d, 0, d.elements(), x.data(), a.saturate);
  return c.put(std::move(d));
}

// Quotients have the precision of x, so that ties are those of its division.
bool eval_fake_quantize(Context& c) {
  const auto& a = c.a<FakeQuantizeAttrs>();
  auto x = c.doubles(0);
  if (!c.charge(6.0 * static_cast<double>(x.size()))) return false;
  const Split split = a.axis < 0 ? Split{1, 1, static_cast<int64_t>(x.size())} : split_at(c.dims(0), a.axis);
  const auto index = [&](size_t i) { return static_cast<size_t>(static_cast<int64_t>(i) / split.inner % split.n); };
  const auto rounded = [&](double v) { return c.t(0).dtype == DType::F64 ? v : static_cast<double>(static_cast<float>(v)); };
  std::vector<double> scales = c.optional_doubles(1);
  if (scales.empty()) {
    scales.resize(static_cast<size_t>(split.n));
    for (size_t i = 0; i < x.size(); ++i) scales[index(i)] = ops::max(scales[index(i)], std::fabs(x[i]));
    for (double& s : scales) s = rounded(s / a.largest());
  }
  for (double& s : scales) s = ops::max(s, rounded(kLeastFakeScale));
  for (size_t i = 0; i < x.size(); ++i) {
    const double s = scales[index(i)], q = std::round(rounded(x[i] / s));
    x[i] = (std::isnan(q) ? q : std::clamp(q, -a.largest(), a.largest())) * s;
  }
  return c.put_result(0, x);
}

// In the arithmetic of f32.
bool eval_dynamic_quantize(Context& c) {
  auto x = c.doubles(0);
  if (!c.charge(6.0 * static_cast<double>(x.size()))) return false;
  float low = 0, high = 0;
  for (double v : x) {
    const auto f = static_cast<float>(v);
    low = std::isnan(low) || f >= low ? low : f;
    high = std::isnan(high) || f <= high ? high : f;
  }
  const float step = (high - low) / 255, scale = step == 0 ? 1 : step;
  const auto saturated = [](double v) { return std::isnan(v) ? 0 : std::clamp(v, 0.0, 255.0); };
  const double point = saturated(ops::round_even(static_cast<double>((0 - low) / scale)));
  for (double& v : x) v = saturated(ops::round_even(static_cast<double>(static_cast<float>(v) / scale)) + point);
  return c.put_result(0, x) && c.put_result(1, std::vector<double>{scale}) && c.put_result(2, std::vector<double>{point});
}

bool eval_dequantize(Context& c) {
  const auto index = ScaleIndex::of(c, c.a<QuantAttrs>());
  if (!index) return false;
  auto x = c.doubles(0);
  const auto scale = c.doubles(1), zero = c.optional_doubles(2);
  if (!c.charge(2.0 * static_cast<double>(x.size()))) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t s = (*index)(static_cast<int64_t>(i));
    x[i] = (x[i] - (zero.empty() ? 0 : zero[s])) * scale[s];
  }
  return c.put_result(0, x);
}

// Integers minus their zero point, operand `zero`: one per tensor, one per row (`axis_from_end`), or a broadcast shape.
bool centred(Context& c, const TensorData& x, size_t zero, size_t axis_from_end, std::vector<Int>* out) {
  *out = load_all<Int>(x);
  if (!c.has(zero)) return true;
  const auto& dims = x.dims;
  const auto z = load_all<Int>(c.t(zero));
  auto z_dims = c.dims(zero);
  if (z_dims.size() == 1 && z.size() > 1) z_dims.resize(axis_from_end, 1);
  if (z_dims.size() > dims.size())
    return c.fail("zero point " + show(c.t(zero).dtype, c.dims(zero)) + " does not fit its operand");
  const auto strides = strides_of(z_dims);
  std::vector<int64_t> step(dims.size(), 0), at(dims.size(), 0);
  for (size_t k = 0; k < z_dims.size(); ++k) {
    const size_t own = dims.size() - z_dims.size() + k;
    if (z_dims[k] != 1 && z_dims[k] != dims[own])
      return c.fail("zero point " + show(c.t(zero).dtype, c.dims(zero)) + " does not fit its operand");
    if (z_dims[k] != 1) step[own] = strides[k];
  }
  int64_t from = 0;
  for (Int& v : *out) {
    v = v - z[static_cast<size_t>(from)];
    for (size_t k = dims.size(); k-- > 0;) {
      from += step[k];
      if (++at[k] < dims[k]) break;
      from -= step[k] * dims[k];
      at[k] = 0;
    }
  }
  return true;
}

// The matmul of integers, whose zero points are operands a_zero and b_zero.
bool integer_matmul(Context& c, const TensorData& left, const TensorData& right, size_t a_zero, size_t b_zero,
                    std::vector<int64_t> dims, TensorData* d) {
  if (!c.charge(static_cast<double>(product(dims)) * static_cast<double>(left.dims.back()))) return false;
  std::vector<Int> a, b;
  if (!centred(c, left, a_zero, 2, &a) || !centred(c, right, b_zero, 1, &b) || !c.make(DType::I32, dims, d)) return false;
  const auto sums = matmul<Int>(tensor_view(a, left.dims), false, tensor_view(b, right.dims), false, dims);
  store(*d, 0, d->elements(), sums.data());
  return true;
}
bool integer_matmul(Context& c, TensorData* d) { return integer_matmul(c, c.t(0), c.t(1), 2, 3, c.result_dims(), d); }

// The first operand, quantized by the scale of operand kQuantOperands.
bool quantized_operand(Context& c, TensorData* d) {
  std::vector<double> codes = c.doubles(0);
  const double scale = c.doubles(kQuantOperands)[0], zero = c.doubles(2)[0];
  for (double& v : codes) v = ops::round_even(quotient(v, scale, c.t(0).dtype)) + zero;
  if (!c.make(c.t(2).dtype, c.dims(0), d)) return false;
  store(*d, 0, d->elements(), codes.data());
  return true;
}

// The image of a convolution minus its zero point.
bool centred_image(Context& c, std::vector<Int>* x) {
  if (!is_float(c.t(0).dtype)) return centred(c, c.t(0), 2, 1, x);
  TensorData d;
  if (!quantized_operand(c, &d)) return false;
  *x = load_all<Int>(d);
  for (Int& v : *x) v = v - load_all<Int>(c.t(2))[0];
  return true;
}

bool integer_convolution(Context& c, const ConvAttrs& attrs, TensorData* d) {
  const auto dims = c.result_dims();
  if (!c.charge(static_cast<double>(product(dims)) * static_cast<double>(c.t(1).elements()) /
                static_cast<double>(std::max<int64_t>(1, c.dims(1)[0]))))
    return false;
  if (c.has(2) && c.t(2).elements() != 1) return c.fail("the zero point of x must be one element");
  std::vector<Int> x, w;
  if (!centred_image(c, &x) || !centred(c, c.t(1), 3, c.dims(1).size(), &w) || !c.make(DType::I32, dims, d)) return false;
  const auto sums = convolve(x, c.dims(0), w, c.dims(1), attrs, dims);
  store(*d, 0, d->elements(), sums.data());
  return true;
}

bool eval_q_matmul(Context& c) {
  TensorData d;
  return integer_matmul(c, &d) && c.put(std::move(d));
}

bool eval_q_conv(Context& c) {
  TensorData d;
  return integer_convolution(c, c.a<ConvAttrs>(), &d) && c.put(std::move(d));
}

// Columns first .. first + count of a matrix of integers.
bool columns_of(Context& c, const TensorData& x, int64_t first, int64_t count, TensorData* d) {
  std::vector<int64_t> dims = x.dims;
  const int64_t all = std::exchange(dims.back(), count);
  if (!c.make(x.dtype, dims, d)) return false;
  const auto values = load_all<Int>(x);
  std::vector<Int> part;
  for (int64_t row = 0; count > 0 && row < static_cast<int64_t>(values.size()) / all; ++row)
    part.insert(part.end(), values.begin() + row * all + first, values.begin() + row * all + first + count);
  store(*d, 0, d->elements(), part.data());
  return true;
}

bool eval_fused_q_matmul(Context& c) {
  const auto& a = c.a<FusionAttrs>();
  std::vector<int64_t> dims = c.result_dims();
  const int64_t n = dims.back();
  const bool two = has_two_sums(a.steps);
  if (two) dims.back() *= 2;
  TensorData d, codes;
  const bool rounds = is_float(c.t(0).dtype);
  if (rounds && !quantized_operand(c, &codes)) return false;
  if (!integer_matmul(c, rounds ? codes : c.t(0), c.t(1), 2, 3, dims, &d)) return false;
  std::vector<TensorData> cores(two ? 2 : 1);
  if (two && (!columns_of(c, d, 0, n, &cores[0]) || !columns_of(c, d, n, n, &cores[1]))) return false;
  if (!two) cores[0] = std::move(d);
  return put_steps_after(c, a.steps, a.also, std::move(cores));
}

bool eval_q_attention(Context& c) {
  std::vector<int64_t> scores = c.dims(0);
  scores.back() = c.dims(1).back();
  TensorData sums;
  return integer_matmul(c, c.t(0), c.t(1), 3, 4, std::move(scores), &sums) &&
         put_attention(c, std::move(sums), [&](const TensorData& probabilities, TensorData* d) {
           return integer_matmul(c, probabilities, c.t(2), 5, 6, c.result_dims(), d);
         });
}

bool eval_fused_q_conv(Context& c) {
  const auto& a = c.a<FusionAttrs>();
  TensorData d;
  if (!integer_convolution(c, conv_step(a), &d)) return false;
  std::vector<TensorData> cores(1);
  cores[0] = std::move(d);
  return put_steps_after(c, a.steps, a.also, std::move(cores));
}

// The dequantized weight of a matmul, in its stored axis order.
std::vector<double> decoded_weight(Context& c, const DequantMatMulAttrs& a) {
  auto w = c.doubles(1);
  const auto &dims = c.dims(1), &of_scale = c.dims(2);
  const auto scale = c.doubles(2), zero = c.optional_doubles(3);
  const int64_t block = a.block ? a.block : std::max<int64_t>(dims[a.trans_b], 1);
  const auto entry = [&](const std::vector<int64_t>& own, int64_t row, int64_t column) {
    (a.trans_b ? column : row) /= block;
    return static_cast<size_t>((own[0] == 1 ? 0 : row * own[1]) + (own[1] == 1 ? 0 : column));
  };
  for (int64_t i = 0; i < static_cast<int64_t>(w.size()); ++i) {
    const int64_t row = i / dims[1], column = i % dims[1];
    double& v = w[static_cast<size_t>(i)];
    v = (v - (zero.empty() ? 0 : zero[entry(c.dims(3), row, column)])) * scale[entry(of_scale, row, column)];
  }
  return w;
}

// Rounds the rows of x to 8 bits with a scale per block, in f32 arithmetic.
std::vector<double> rounded_rows(std::vector<double> x, int64_t k, int64_t block) {
  if (block == 0) block = std::max<int64_t>(k, 1);
  for (size_t first = 0; first < x.size(); first += static_cast<size_t>(block)) {
    const std::span<double> part = std::span(x).subspan(first, static_cast<size_t>(block));
    float most = 0;
    for (double v : part) most = std::max(most, std::abs(static_cast<float>(v)));
    const float scale = most / 127, inverse = scale != 0 ? 1 / scale : 0;
    for (double& v : part) v = std::clamp(std::nearbyint(static_cast<float>(v) * inverse), -128.F, 127.F) * scale;
  }
  return x;
}

bool eval_dequant_matmul(Context& c) {
  const auto& a = c.a<DequantMatMulAttrs>();
  auto dims = c.result_dims();
  const auto n = static_cast<size_t>(dims.back());
  if (a.gated) dims.back() *= 2;
  const double terms = static_cast<double>(product(dims)) * static_cast<double>(c.dims(0).back() + 2);
  if (!c.charge(terms + 3.0 * static_cast<double>(c.t(1).elements()))) return false;
  const auto w = decoded_weight(c, a);
  const auto rounded = a.int8_x ? rounded_rows(c.doubles(0), c.dims(0).back(), a.block) : std::vector<double>();
  const auto x = a.int8_x ? tensor_view(rounded, c.dims(0)) : c.t(0);
  auto y = matmul<double>(x, false, tensor_view(w, c.dims(1)), a.trans_b, dims);
  if (c.has(4)) add_broadcast(y, dims, c.t(4));
  if (a.gated) return c.put_result(0, gated(y, n, a.gate_first, a.act));
  if (!add_residual(c, 5, y)) return false;
  apply_epilogue(a.act, y);
  return c.put_result(0, y);
}

}  // namespace

std::span<const Entry> quant_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Quantize, eval_quantize},
                                     {OpKind::Dequantize, eval_dequantize},
                                     {OpKind::DynamicQuantize, eval_dynamic_quantize},
                                     {OpKind::FakeQuantize, eval_fake_quantize},
                                     {OpKind::QMatMul, eval_q_matmul},
                                     {OpKind::QConv, eval_q_conv},
                                     {OpKind::FusedQMatMul, eval_fused_q_matmul},
                                     {OpKind::FusedQConv, eval_fused_q_conv},
                                     {OpKind::QAttention, eval_q_attention},
                                     {OpKind::DequantMatMul, eval_dequant_matmul}};
  return kTable;
}

}  // namespace rlxc::eval
