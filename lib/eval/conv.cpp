// Convolutions with any number of spatial axes: im2col by strips of positions, then a matmul.
#include "eval/conv.h"

#include <algorithm>

#include "eval/gemm.h"
#include "eval/parallel.h"

namespace rlxc::eval {
namespace {

// Advances coordinates in row-major order.
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
  constexpr int64_t kStrip = 512, kGroups = 32;  // positions per strip; groups that share source indices
  const auto space = x_dims.subspan(2), kernel = w_dims.subspan(2), out_space = dims.subspan(2);
  const int64_t in_size = product(space), taps = product(kernel), out_size = product(out_space);
  const int64_t channels = w_dims[1], filters = w_dims[0] / a.groups;
  std::vector<V> y(static_cast<size_t>(product(dims)), V(0));
  if (y.empty()) return y;
  const auto strides = strides_of(space), out_strides = strides_of(out_space);
  const int64_t strips = (out_size + kStrip - 1) / kStrip, chunks = (a.groups + kGroups - 1) / kGroups;
  // The element that each tap reads at each position of a strip, or -1 for padding.
  const auto find = [&](int64_t first, int64_t strip, int64_t* from) {
    std::vector<int64_t> tap(kernel.size(), 0);
    for (int64_t t = 0; t < taps; ++t, advance(tap, kernel))
      for (int64_t s = 0; s < strip; ++s) {
        int64_t element = 0;
        for (size_t k = 0; k < tap.size() && element >= 0; ++k) {
          const int64_t position = (first + s) / out_strides[k] % out_space[k];
          const int64_t at = position * a.strides[k] - a.pads_begin[k] + tap[k] * a.dilations[k];
          element = at >= 0 && at < space[k] ? element + at * strides[k] : -1;
        }
        *from++ = element;
      }
  };
  const double work = static_cast<double>(y.size()) * static_cast<double>(channels * taps);
  in_parallel(x_dims[0] * strips * chunks, work, [&](int64_t begin, int64_t end) {
    const auto most = static_cast<size_t>(taps * std::min(kStrip, out_size));
    std::vector<V> patches(static_cast<size_t>(channels) * most), part;
    std::vector<int64_t> from(most);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / chunks / strips, first = i / chunks % strips * kStrip, strip = std::min(kStrip, out_size - first);
      find(first, strip, from.data());
      const int64_t group = i % chunks * kGroups;
      for (int64_t g = group; g < std::min(group + kGroups, a.groups); ++g) {
        V* patch = patches.data();
        for (int64_t ch = 0; ch < channels; ++ch) {
          const V* plane = x.data() + (n * x_dims[1] + g * channels + ch) * in_size;
          for (int64_t j = 0; j < taps * strip; ++j) {
            const int64_t element = from[static_cast<size_t>(j)];
            *patch++ = element >= 0 ? plane[element] : V(0);
          }
        }
        part.assign(static_cast<size_t>(filters * strip), V(0));
        gemm(w.data() + g * filters * channels * taps, patches.data(), part.data(), filters, channels * taps, strip);
        V* result = y.data() + (n * w_dims[0] + g * filters) * out_size + first;
        for (int64_t f = 0; f < filters; ++f) std::copy_n(part.data() + f * strip, strip, result + f * out_size);
      }
    }
  });
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
  // One matmul of transposed w and x gives all contributions; each is then added at its position.
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
