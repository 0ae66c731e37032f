// Pooling over windows of spatial axes.
#include <algorithm>

#include "eval/context.h"

namespace rlxc::eval {
namespace {

struct Window {
  std::vector<int64_t> offsets;  // of elements inside the input, in scan order
  int64_t size = 0;              // divisor of a mean
};

// Offsets, in one channel, of the window at output coordinates `at`.
void fill_window(const PoolAttrs& a, std::span<const int64_t> space, std::span<const int64_t> strides,
                 std::span<const int64_t> at, Window* w) {
  w->offsets.clear();
  w->size = 0;
  std::vector<int64_t> tap(space.size(), 0);
  for (;;) {
    int64_t offset = 0;
    bool inside = true, padded = true;
    for (size_t k = 0; k < space.size(); ++k) {
      const int64_t i = at[k] * a.strides[k] - a.pads_begin[k] + tap[k] * a.dilations[k];
      inside &= i >= 0 && i < space[k];
      padded &= i < space[k] + a.pads_end[k];  // ceil mode adds positions beyond the padding, which do not count
      offset += i * strides[k];
    }
    if (inside) w->offsets.push_back(offset);
    w->size += a.count_include_pad ? padded : inside;
    size_t k = space.size();
    while (k-- > 0) {
      if (++tap[k] < a.kernel[k]) break;
      tap[k] = 0;
    }
    if (k == static_cast<size_t>(-1)) return;
  }
}

// The flat index of a spatial offset with the first axis fastest.
int64_t column_major(int64_t offset, std::span<const int64_t> space, std::span<const int64_t> strides) {
  int64_t index = 0, scale = 1;
  for (size_t k = 0; k < space.size(); ++k) index += offset / strides[k] % space[k] * scale, scale *= space[k];
  return index;
}

double pooled(const PoolAttrs& a, const double* x, const Window& w) {
  double acc = a.op == ReduceOp::Max    ? -std::numeric_limits<double>::infinity()
               : a.op == ReduceOp::Min  ? std::numeric_limits<double>::infinity()
               : a.op == ReduceOp::Prod ? 1.0
                                        : 0.0;
  for (int64_t o : w.offsets) {
    const double v = x[o];
    switch (a.op) {
      case ReduceOp::Max: acc = ops::max(acc, v); break;
      case ReduceOp::Min: acc = ops::min(acc, v); break;
      case ReduceOp::Prod: acc *= v; break;
      case ReduceOp::L1: acc += std::fabs(v); break;
      case ReduceOp::L2: acc += std::pow(std::fabs(v), a.p); break;
      case ReduceOp::SumSquare: acc += v * v; break;
      default: acc += v; break;
    }
  }
  if (a.op == ReduceOp::Mean) return acc / static_cast<double>(w.size);
  if (a.op == ReduceOp::L2) return std::pow(acc, 1 / a.p);
  return acc;
}

// Calls f(window, channel offset in x, result index) for every result element.
template <class F>
bool for_windows(Context& c, const PoolAttrs& a, std::span<const int64_t> dims, F f) {
  const auto space = std::span(c.dims(0)).subspan(2), out_space = dims.subspan(2);
  const int64_t in_size = product(space), out_size = product(out_space), planes = dims[0] * dims[1];
  if (!c.charge(static_cast<double>(out_size) * static_cast<double>(planes) * static_cast<double>(product(a.kernel))))
    return false;
  const auto strides = strides_of(space);
  std::vector<int64_t> at(out_space.size(), 0);
  Window w;
  for (int64_t o = 0; o < out_size; ++o) {
    fill_window(a, space, strides, at, &w);
    for (int64_t p = 0; p < planes; ++p) f(w, p * in_size, p * out_size + o);
    for (size_t k = out_space.size(); k-- > 0;) {
      if (++at[k] < out_space[k]) break;
      at[k] = 0;
    }
  }
  return true;
}

bool eval_pool(Context& c) {
  const auto& a = c.a<PoolAttrs>();
  if (a.op == ReduceOp::LogSum || a.op == ReduceOp::LogSumExp) return c.unsupported("pooling by this reduction is not defined");
  const auto dims = c.result_dims();
  const auto x = c.doubles(0);
  std::vector<double> y(static_cast<size_t>(product(dims)));
  return for_windows(
             c, a, dims,
             [&](const Window& w, int64_t base, int64_t to) { y[static_cast<size_t>(to)] = pooled(a, x.data() + base, w); }) &&
         c.put_result(0, y);
}

bool eval_max_pool_indices(Context& c) {
  const auto& a = c.a<PoolAttrs>();
  const auto dims = c.result_dims();
  const auto x = c.doubles(0);
  const auto space = std::span(c.dims(0)).subspan(2);
  const auto strides = strides_of(space);
  std::vector<double> y(static_cast<size_t>(product(dims)));
  std::vector<Int> index(y.size());
  const bool ok = for_windows(c, a, dims, [&](const Window& w, int64_t base, int64_t to) {
    double best = -std::numeric_limits<double>::infinity();
    int64_t where = w.offsets.empty() ? 0 : w.offsets[0];
    for (int64_t o : w.offsets)
      if (const double v = x[static_cast<size_t>(base + o)]; v > best || (v != v && best == best)) best = v, where = o;
    y[static_cast<size_t>(to)] = best;
    index[static_cast<size_t>(to)] = base + (a.column_major ? column_major(where, space, strides) : where);
  });
  return ok && c.put_result(0, y) && c.put_result(1, index);
}

}  // namespace

std::span<const Entry> pool_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Pool, eval_pool}, {OpKind::MaxPoolIndices, eval_max_pool_indices}};
  return kTable;
}

}  // namespace rlxc::eval
