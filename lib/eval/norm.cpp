// Softmax and norms. Statistics are two-pass sums in double.
#include "eval/norm.h"

#include <algorithm>

#include "eval/broadcast.h"

namespace rlxc::eval {
namespace {

template <class F>
void broadcast_into(std::vector<double>& x, std::span<const int64_t> dims, const TensorData& y, F f) {
  const auto values = load_all<double>(y);
  TensorData shape;
  shape.dims = y.dims;
  const TensorData* operands[] = {&shape};
  BroadcastRows(dims, operands).for_each([&](int64_t at, int64_t n, const int64_t* offset, const int64_t* step) {
    for (int64_t i = 0; i < n; ++i) f(x[static_cast<size_t>(at + i)], values[static_cast<size_t>(offset[0] + i * step[0])]);
  });
}

}  // namespace

void add_broadcast(std::vector<double>& x, std::span<const int64_t> dims, const TensorData& y) {
  broadcast_into(x, dims, y, [](double& a, double b) { a += b; });
}

void normalise(std::vector<double>& x, std::span<const int64_t> dims, int64_t axis, double eps, bool rms, NormOperands p) {
  const auto n = static_cast<size_t>(product(dims.subspan(static_cast<size_t>(axis))));
  for (size_t at = 0; n > 0 && at < x.size(); at += n) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; ++i) mean += x[at + i];
    mean = rms ? 0 : mean / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) square += (x[at + i] - mean) * (x[at + i] - mean);
    const double scale = 1 / std::sqrt(square / static_cast<double>(n) + eps);
    for (size_t i = 0; i < n; ++i) x[at + i] = (x[at + i] - mean) * scale;
  }
  if (p.gamma) broadcast_into(x, dims, *p.gamma, [](double& a, double b) { a *= b; });
  if (p.beta) add_broadcast(x, dims, *p.beta);
}

void softmax_run(double* x, int64_t n) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i) largest = ops::max(largest, x[i]);
  if (largest == -std::numeric_limits<double>::infinity()) {
    std::fill_n(x, n, 0.0);
    return void();
  }
  for (int64_t i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - largest);
    sum += x[i];
  }
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

void softmax(std::vector<double>& x, std::span<const int64_t> dims, int64_t axis, bool log) {
  const Split s = split_at(dims, axis);
  std::vector<double> run(static_cast<size_t>(s.n));
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t i = 0; i < s.inner; ++i) {
      double* base = x.data() + o * s.n * s.inner + i;
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < s.n; ++k) largest = ops::max(largest, base[k * s.inner]);
      for (int64_t k = 0; k < s.n; ++k) sum += run[static_cast<size_t>(k)] = std::exp(base[k * s.inner] - largest);
      for (int64_t k = 0; k < s.n; ++k)
        base[k * s.inner] = log ? base[k * s.inner] - largest - std::log(sum) : run[static_cast<size_t>(k)] / sum;
    }
}

double number_of(const std::vector<double>& numbers, size_t element, size_t width) {
  return numbers[numbers.size() == 1 ? 0 : element / width % numbers.size()];
}

bool put_rounded(Context& c, std::vector<double> x, size_t scale, size_t width) {
  if (!c.has(scale)) return c.put_result(0, x);
  const std::vector<double> scales = c.doubles(scale), zeros = c.doubles(scale + 1);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto scale_of_i = static_cast<float>(number_of(scales, i, width));
    x[i] = ops::round_even(static_cast<double>(static_cast<float>(x[i]) / scale_of_i)) + number_of(zeros, i, width);
  }
  if (c.has(scale + 2)) {
    const bool is_signed = c.t(scale + 1).dtype == DType::I8;
    const double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    const double zero = zeros[0], back = c.doubles(scale + 2)[0];
    for (double& v : x) v = (std::clamp(v, low, high) - zero) * back;
    return c.put_result(0, x);
  }
  TensorData d;
  if (!c.make_result(0, &d)) return false;
  store(d, 0, d.elements(), x.data(), true);
  return c.put(std::move(d));
}

namespace {

bool eval_softmax(Context& c) {
  const int64_t axis = c.a<AxisAttrs>().axis;
  if (axis < 0 || axis >= static_cast<int64_t>(c.dims(0).size()))
    return c.fail("axis " + std::to_string(axis) + " is out of range");
  auto x = c.doubles(0);
  if (!c.charge(8.0 * static_cast<double>(x.size()))) return false;
  softmax(x, c.dims(0), axis, c.op == OpKind::LogSoftmax);
  return put_rounded(c, std::move(x), kResultScale);
}

bool eval_norm(Context& c) {
  const auto& a = c.a<NormAttrs>();
  auto x = c.doubles(0);
  if (!c.charge(6.0 * static_cast<double>(x.size()))) return false;
  normalise(x, c.dims(0), a.axis, a.eps, c.op == OpKind::RmsNorm, {c.has(1) ? &c.t(1) : nullptr, c.has(2) ? &c.t(2) : nullptr});
  return c.put_result(0, x);
}

// x*scale + shift per channel (`axis`).
void scale_channels(std::vector<double>& x, std::span<const int64_t> dims, int64_t axis, const std::vector<double>& scale,
                    const std::vector<double>& shift) {
  const Split s = split_at(dims, axis);
  size_t at = 0;
  for (int64_t o = 0; o < s.outer; ++o)
    for (size_t ch = 0; ch < static_cast<size_t>(s.n); ++ch)
      for (int64_t i = 0; i < s.inner; ++i, ++at)
        x[at] = x[at] * (scale.empty() ? 1 : scale[ch]) + (shift.empty() ? 0 : shift[ch]);
}

bool eval_group_norm(Context& c) {
  const auto& a = c.a<GroupNormAttrs>();
  auto x = c.doubles(0);
  if (!c.charge(6.0 * static_cast<double>(x.size()))) return false;
  const auto& d = c.dims(0);
  if (d[1] % a.groups != 0) return c.fail("groups does not divide the channels");
  const int64_t grouped[] = {d[0] * a.groups, product(std::span(d).subspan(1)) / a.groups};
  normalise(x, grouped, 1, a.eps, false, {});
  scale_channels(x, d, 1, c.optional_doubles(1), c.optional_doubles(2));
  return c.put_result(0, x);
}

bool eval_batch_norm(Context& c) {
  const auto& a = c.a<NormAttrs>();
  auto x = c.doubles(0);
  if (!c.charge(2.0 * static_cast<double>(x.size()))) return false;
  auto scale = c.doubles(1), shift = c.doubles(2);
  const auto mean = c.doubles(3), variance = c.doubles(4);
  for (size_t i = 0; i < scale.size(); ++i) {
    scale[i] /= std::sqrt(variance[i] + a.eps);
    shift[i] -= mean[i] * scale[i];
  }
  scale_channels(x, c.dims(0), a.axis, scale, shift);
  return c.put_result(0, x);
}

bool eval_lrn(Context& c) {
  const auto& a = c.a<LrnAttrs>();
  const auto& d = c.dims(0);
  if (d.size() < 2 || a.size < 1) return c.fail("needs [N,C,...] and a positive size");
  const auto x = c.doubles(0);
  if (!c.charge(static_cast<double>(x.size()) * static_cast<double>(std::min(a.size, d[1])))) return false;
  const Split s = split_at(d, 1);
  std::vector<double> y(x.size());
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t ch = 0; ch < s.n; ++ch)
      for (int64_t i = 0; i < s.inner; ++i) {
        double sum = 0;
        const int64_t first = std::max<int64_t>(0, ch - (a.size - 1) / 2), last = std::min(s.n - 1, ch + a.size / 2);
        for (int64_t k = first; k <= last; ++k) sum += std::pow(x[static_cast<size_t>((o * s.n + k) * s.inner + i)], 2);
        const auto at = static_cast<size_t>((o * s.n + ch) * s.inner + i);
        y[at] = x[at] / std::pow(a.bias + a.alpha / static_cast<double>(a.size) * sum, a.beta);
      }
  return c.put_result(0, y);
}

}  // namespace

std::span<const Entry> norm_evaluators() {
  static constexpr Entry kTable[] = {
      {OpKind::Softmax, eval_softmax}, {OpKind::LogSoftmax, eval_softmax},   {OpKind::LayerNorm, eval_norm},
      {OpKind::RmsNorm, eval_norm},    {OpKind::GroupNorm, eval_group_norm}, {OpKind::BatchNormInference, eval_batch_norm},
      {OpKind::Lrn, eval_lrn}};
  return kTable;
}

}  // namespace rlxc::eval
