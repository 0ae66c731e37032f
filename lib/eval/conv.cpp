// Convolutions in any number of spatial axes: patches gathered into a matrix, a strip of positions at a time, and multiplied.
#include "eval/conv.h"

#include <algorithm>

#include "eval/gemm.h"

namespace rlxc::eval {
namespace {

// Steps through coordinates in row-major order.
bool advance(std::vector<int64_t>& at, std::span<const int64_t> dims) {
  for (size_t k = dims.size(); k-- > 0;) {
    if (++at[k] < dims[k]) return true;
    at[k] = 0;
  }
  return false;
}

}  // namespace

template <class V>
std::vector<V> convolve(const std::vector<V>& x, std::span<const int64_t> x_dims, const std::vector<V>& w,
                        std::span<const int64_t> w_dims, const ConvAttrs& a, std::span<const int64_t> dims) {
  constexpr int64_t kStrip = 512;
  const auto space = x_dims.subspan(2), kernel = w_dims.subspan(2), out_space = dims.subspan(2);
  const int64_t in_size = product(space), taps = product(kernel), out_size = product(out_space);
  const int64_t channels = w_dims[1], filters = w_dims[0] / a.groups;
  std::vector<V> y(static_cast<size_t>(product(dims)), V(0));
  if (y.empty()) return y;
  const auto strides = strides_of(space);
  std::vector<V> patches(static_cast<size_t>(channels * taps * std::min(kStrip, out_size))), part;
  for (int64_t n = 0; n < x_dims[0]; ++n)
    for (int64_t g = 0; g < a.groups; ++g) {
      const V* image = x.data() + (n * x_dims[1] + g * channels) * in_size;
      const V* weights = w.data() + g * filters * channels * taps;
      V* result = y.data() + (n * w_dims[0] + g * filters) * out_size;
      std::vector<int64_t> position(out_space.size(), 0);
      for (int64_t first = 0; first < out_size; first += kStrip) {
        const int64_t strip = std::min(kStrip, out_size - first);
        for (int64_t s = 0; s < strip; ++s) {
          std::vector<int64_t> tap(kernel.size(), 0);
          for (int64_t t = 0; t < taps; ++t) {
            int64_t from = 0;
            bool inside = true;
            for (size_t k = 0; k < tap.size(); ++k) {
              const int64_t at = position[k] * a.strides[k] - a.pads_begin[k] + tap[k] * a.dilations[k];
              inside &= at >= 0 && at < space[k];
              from += at * strides[k];
            }
            for (int64_t ch = 0; ch < channels; ++ch)
              patches[static_cast<size_t>((ch * taps + t) * strip + s)] = inside ? image[ch * in_size + from] : V(0);
            advance(tap, kernel);
          }
          advance(position, out_space);
        }
        part.assign(static_cast<size_t>(filters * strip), V(0));
        gemm(weights, patches.data(), part.data(), filters, channels * taps, strip);
        for (int64_t f = 0; f < filters; ++f) std::copy_n(part.data() + f * strip, strip, result + f * out_size + first);
      }
    }
  return y;
}
template std::vector<double> convolve(const std::vector<double>&, std::span<const int64_t>, const std::vector<double>&,
                                      std::span<const int64_t>, const ConvAttrs&, std::span<const int64_t>);
template std::vector<Int> convolve(const std::vector<Int>&, std::span<const int64_t>, const std::vector<Int>&,
                                   std::span<const int64_t>, const ConvAttrs&, std::span<const int64_t>);

std::vector<double> convolve_transposed(const std::vector<double>& x, std::span<const int64_t> x_dims,
                                        const std::vector<double>& w, std::span<const int64_t> w_dims, const ConvAttrs& a,
                                        std::span<const int64_t> dims) {
  const auto space = x_dims.subspan(2), kernel = w_dims.subspan(2), out_space = dims.subspan(2);
  const int64_t in_size = product(space), taps = product(kernel), out_size = product(out_space), filters = w_dims[1],
                channels = x_dims[1] / a.groups;
  const auto strides = strides_of(out_space);
  std::vector<double> y(static_cast<size_t>(product(dims)), 0.0);
  std::vector<double> spread(static_cast<size_t>(filters * taps * in_size));
  // All contributions of the input are one product of w transposed and x; each then lands at its place.
  const auto weights = transpose_last(w, channels, filters * taps);
  for (int64_t n = 0; n < x_dims[0]; ++n)
    for (int64_t g = 0; g < a.groups; ++g) {
      std::fill(spread.begin(), spread.end(), 0.0);
      gemm(weights.data() + g * channels * filters * taps, x.data() + (n * x_dims[1] + g * channels) * in_size, spread.data(),
           filters * taps, channels, in_size);
      std::vector<int64_t> tap(kernel.size(), 0);
      for (int64_t t = 0; t < taps; ++t, advance(tap, kernel)) {
        std::vector<int64_t> at(space.size(), 0);
        for (int64_t i = 0; i < in_size; ++i, advance(at, space)) {
          int64_t to = 0;
          bool inside = true;
          for (size_t k = 0; k < at.size(); ++k) {
            const int64_t p = at[k] * a.strides[k] - a.pads_begin[k] + tap[k] * a.dilations[k];
            inside &= p >= 0 && p < out_space[k];
            to += p * strides[k];
          }
          if (!inside) continue;
          for (int64_t f = 0; f < filters; ++f)
            y[static_cast<size_t>(((n * a.groups + g) * filters + f) * out_size + to)] +=
                spread[static_cast<size_t>((f * taps + t) * in_size + i)];
        }
      }
    }
  return y;
}

bool charge_transposed(Context& c) {
  return c.charge(static_cast<double>(c.t(0).elements()) * static_cast<double>(c.t(1).elements()) /
                  static_cast<double>(std::max<int64_t>(1, c.dims(1)[0])));
}

void add_channel_bias(std::vector<double>& y, std::span<const int64_t> dims, const std::vector<double>& bias) {
  if (bias.empty()) return;
  const Split s = split_at(dims, 1);
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i / static_cast<size_t>(s.inner) % static_cast<size_t>(s.n)];
}

namespace {

bool eval_conv(Context& c) {
  const bool integers = is_integer(c.t(0).dtype) && !c.has(2);
  if (!integers && !is_float(c.t(0).dtype)) return c.unsupported("is not defined for " + std::string(name(c.t(0).dtype)));
  const auto dims = c.result_dims();
  if (!c.charge(static_cast<double>(product(dims)) * static_cast<double>(c.t(1).elements()) /
                static_cast<double>(std::max<int64_t>(1, c.dims(1)[0]))))
    return false;
  if (integers)
    return c.put_result(0, convolve(load_all<Int>(c.t(0)), c.dims(0), load_all<Int>(c.t(1)), c.dims(1), c.a<ConvAttrs>(), dims));
  auto y = convolve(c.doubles(0), c.dims(0), c.doubles(1), c.dims(1), c.a<ConvAttrs>(), dims);
  add_channel_bias(y, dims, c.optional_doubles(2));
  return c.put_result(0, y);
}

bool eval_conv_transpose(Context& c) {
  if (!is_float(c.t(0).dtype)) return c.unsupported("is not defined for " + std::string(name(c.t(0).dtype)));
  const auto dims = c.result_dims();
  if (!charge_transposed(c)) return false;
  auto y = convolve_transposed(c.doubles(0), c.dims(0), c.doubles(1), c.dims(1), c.a<ConvAttrs>(), dims);
  add_channel_bias(y, dims, c.optional_doubles(2));
  return c.put_result(0, y);
}

}  // namespace

std::span<const Entry> conv_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Conv, eval_conv}, {OpKind::ConvTranspose, eval_conv_transpose}};
  return kTable;
}

}  // namespace rlxc::eval
