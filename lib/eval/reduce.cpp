// Reductions and selections along axes: Reduce, ArgReduce, Cumsum, Cumprod, TopK.
#include <algorithm>
#include <numeric>

#include "eval/norm.h"

namespace rlxc::eval {
namespace {

template <class V>
V first_of(ReduceOp op) {
  if constexpr (std::is_same_v<V, double>) {
    if (op == ReduceOp::Max || op == ReduceOp::LogSumExp) return -std::numeric_limits<double>::infinity();
    if (op == ReduceOp::Min) return std::numeric_limits<double>::infinity();
  } else {
    using T = decltype(V().v);
    if (op == ReduceOp::Max) return std::numeric_limits<T>::min();
    if (op == ReduceOp::Min) return std::numeric_limits<T>::max();
  }
  return op == ReduceOp::Prod ? V(1) : V(0);
}

template <class V>
void combine(ReduceOp op, V& acc, V x) {
  switch (op) {
    case ReduceOp::Max:
    case ReduceOp::LogSumExp: acc = ops::max(acc, x); return;  // the maximum first; a second pass sums the exponentials
    case ReduceOp::Min: acc = ops::min(acc, x); return;
    case ReduceOp::Prod: acc = acc * x; return;
    case ReduceOp::L1: acc = acc + ops::abs(x); return;
    case ReduceOp::L2:
    case ReduceOp::SumSquare: acc = acc + x * x; return;
    default: acc = acc + x; return;
  }
}

// Converts an accumulator over `count` elements to the result.
template <class V>
V finish(ReduceOp op, V acc, int64_t count) {
  if constexpr (std::is_same_v<V, double>) {
    if (op == ReduceOp::Mean) return acc / static_cast<double>(count);
    if (op == ReduceOp::L2) return std::sqrt(acc);
    if (op == ReduceOp::LogSum) return std::log(acc);
  } else {
    if (op == ReduceOp::Mean) return acc / V(count);
    if (op == ReduceOp::L2) return ops::lit(V(), std::sqrt(static_cast<double>(acc.v)));
    if (op == ReduceOp::LogSum) return ops::lit(V(), std::log(static_cast<double>(acc.v)));
  }
  return acc;
}

template <class V>
bool reduce(Context& c, const TensorData& t, const ReduceAttrs& a, TensorData* to) {
  const auto& dims = t.dims;
  // Result offset per coordinate of each axis.
  std::vector<int64_t> kept = dims;
  for (int64_t axis : a.axes) kept[static_cast<size_t>(axis)] = 1;
  auto strides = strides_of(kept);
  for (int64_t axis : a.axes) strides[static_cast<size_t>(axis)] = 0;
  const int64_t total = t.elements(), results = product(kept), inner = dims.empty() ? 1 : dims.back();
  if (!c.charge(2.0 * static_cast<double>(total))) return false;
  ReduceOp op = a.op;
  if (!std::is_same_v<V, double> && op == ReduceOp::LogSumExp) return c.unsupported("log_sum_exp is not defined for integers");
  std::vector<V> block(static_cast<size_t>(std::min<int64_t>(total, 4096)));  // elements in order
  auto walk = [&](auto f) {
    std::vector<int64_t> at(dims.size(), 0);
    size_t in_block = block.size();
    const auto next = [&](int64_t i) {
      if (in_block == block.size()) {
        load(t, i, std::min(total - i, static_cast<int64_t>(block.size())), block.data());
        in_block = 0;
      }
      return block[in_block++];
    };
    int64_t out = 0;
    const int64_t step = dims.empty() ? 0 : strides.back();
    for (int64_t i = 0; i < total; i += inner) {
      for (int64_t j = 0; j < inner; ++j) f(static_cast<size_t>(out + j * step), next(i + j));
      for (size_t k = dims.size() - (dims.empty() ? 0 : 1); k-- > 0;) {
        out += strides[k];
        if (++at[k] < dims[k]) break;
        out -= strides[k] * dims[k];
        at[k] = 0;
      }
    }
  };
  std::vector<V> acc(static_cast<size_t>(results), first_of<V>(op));
  walk([&](size_t o, V v) { combine(op, acc[o], v); });
  const int64_t count = results > 0 ? total / results : 0;
  if constexpr (std::is_same_v<V, double>) {
    if (op == ReduceOp::LogSumExp) {
      std::vector<double> sums(acc.size(), 0.0);
      walk([&](size_t o, double v) { sums[o] += std::isinf(acc[o]) ? (v == acc[o] ? 1.0 : 0.0) : std::exp(v - acc[o]); });
      for (size_t o = 0; o < acc.size(); ++o) acc[o] += std::log(sums[o]);
    }
  }
  for (V& v : acc) v = finish(op, v, count);
  store(*to, 0, to->elements(), acc.data());
  return true;
}

}  // namespace

bool reduce_tensor(Context& c, const TensorData& x, const ReduceAttrs& a, TensorData* to) {
  const DType t = x.dtype;
  if (t == DType::U64) return reduce<UInt>(c, x, a, to);
  if (is_float(t)) return reduce<double>(c, x, a, to);
  if (is_integer(t) || t == DType::Bool) {
    if (x.elements() == 0 && (a.op == ReduceOp::Max || a.op == ReduceOp::Min)) {  // the least or largest value of the type
      std::vector<double> v(static_cast<size_t>(to->elements()), a.op == ReduceOp::Max ? -1e30 : 1e30);
      if (t == DType::Bool) v.assign(v.size(), a.op == ReduceOp::Max ? 0 : 1);
      store(*to, 0, to->elements(), v.data());
      return true;
    }
    return reduce<Int>(c, x, a, to);
  }
  return c.unsupported("is not defined for " + std::string(name(t)));
}

namespace {

bool eval_reduce(Context& c) {
  TensorData d;
  return c.make_result(0, &d) && reduce_tensor(c, c.t(0), c.a<ReduceAttrs>(), &d) && c.put(std::move(d));
}

// Returns whether a sorts before b among the largest (smallest). NaN counts as largest.
template <class V>
bool before(V a, V b, bool largest) {
  if constexpr (std::is_same_v<V, double>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) != std::isnan(b) && std::isnan(largest ? a : b);
  }
  return largest ? a > b : a < b;
}

template <class F>
bool with_ordered(Context& c, F f) {
  bool ok = false;
  with_numbers(c.t(0).dtype, [&](auto v) {
    using V = decltype(v);
    if constexpr (std::is_same_v<V, Complex>) return c.unsupported("complex numbers have no order");
    else return ok = f(v);
  });
  return ok || c.unsupported("is not defined for " + std::string(name(c.t(0).dtype)));
}

// Comparisons with NaN are false, as in kernels and onnxruntime: a NaN is returned only if it is the first element.
bool eval_arg_reduce(Context& c) {
  const auto& a = c.a<ArgAttrs>();
  const Split s = split_at(c.dims(0), a.axis);
  if (!c.charge(static_cast<double>(c.t(0).elements()))) return false;
  return with_ordered(c, [&](auto v) {
    using V = decltype(v);
    const auto x = load_all<V>(c.t(0));
    std::vector<Int> out;
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t i = 0; i < s.inner; ++i) {
        auto at = [&](int64_t k) { return x[static_cast<size_t>((o * s.n + k) * s.inner + i)]; };
        int64_t best = 0;
        for (int64_t k = 1; k < s.n; ++k) {
          const V& v = at(k);
          const V& old = at(best);
          if ((a.largest ? v > old : v < old) || (a.select_last && v == old)) best = k;
        }
        out.push_back(best);
      }
    return c.put_result(0, out);
  });
}

// Cumsum and Cumprod.
bool eval_cumulative(Context& c) {
  const bool product = c.op == OpKind::Cumprod;
  const auto& a = c.a<CumAttrs>();
  if (a.axis < 0 || a.axis >= static_cast<int64_t>(c.dims(0).size())) return c.fail("axis is out of range");
  const Split s = split_at(c.dims(0), a.axis);
  if (!c.charge(static_cast<double>(c.t(0).elements()))) return false;
  return with_ordered(c, [&](auto v) {
    using V = decltype(v);
    auto x = load_all<V>(c.t(0));
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t i = 0; i < s.inner; ++i) {
        V sum(product ? 1 : 0);
        for (int64_t k = 0; k < s.n; ++k) {
          V& e = x[static_cast<size_t>((o * s.n + (a.reverse ? s.n - 1 - k : k)) * s.inner + i)];
          const V next = product ? sum * e : sum + e;
          e = a.exclusive ? sum : next;
          sum = next;
        }
      }
    return c.put_result(0, x);
  });
}

bool eval_topk(Context& c) {
  const auto& a = c.a<TopKAttrs>();
  const Split s = split_at(c.dims(0), a.axis);
  const int64_t k = c.size(a.k);
  if (k > s.n) return c.fail("k = " + std::to_string(k) + " of an axis of size " + std::to_string(s.n));
  if (!c.charge(static_cast<double>(c.t(0).elements()) * 16)) return false;
  return with_ordered(c, [&](auto v) {
    using V = decltype(v);
    const auto x = load_all<V>(c.t(0));
    std::vector<V> values(static_cast<size_t>(s.outer * k * s.inner));
    std::vector<Int> indices(values.size());
    std::vector<int64_t> order(static_cast<size_t>(s.n));
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t i = 0; i < s.inner; ++i) {
        auto at = [&](int64_t j) { return x[static_cast<size_t>((o * s.n + j) * s.inner + i)]; };
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t p, int64_t q) {
          if (before(at(p), at(q), a.largest)) return true;
          if (before(at(q), at(p), a.largest)) return false;
          return p < q;
        });
        for (int64_t j = 0; j < k; ++j) {
          const auto to = static_cast<size_t>((o * k + j) * s.inner + i);
          values[to] = at(order[static_cast<size_t>(j)]);
          indices[to] = order[static_cast<size_t>(j)];
        }
      }
    return c.put_result(0, values) && c.put_result(1, indices);
  });
}

}  // namespace

std::span<const Entry> reduce_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Reduce, eval_reduce},
                                     {OpKind::ArgReduce, eval_arg_reduce},
                                     {OpKind::Cumsum, eval_cumulative},
                                     {OpKind::Cumprod, eval_cumulative},
                                     {OpKind::TopK, eval_topk}};
  return kTable;
}

}  // namespace rlxc::eval
