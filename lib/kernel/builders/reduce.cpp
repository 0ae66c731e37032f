#include "kernel/builders/reduce.h"

#include <algorithm>
#include <limits>

namespace rlxc::kernel {

Expr identity_of(Kernel* k, ExprOp combine, DType t) {
  bool max = combine == ExprOp::Max;
  if (combine == ExprOp::Add || combine == ExprOp::Or) return constant_int(k, t, 0);
  if (combine == ExprOp::Mul) return constant_int(k, t, 1);
  if (combine == ExprOp::And) return constant_int(k, t, t == DType::Bool ? 1 : -1);
  if (is_float(t))
    return constant(k, t, max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
  int bits = rlxc::bits(t);
  if (dtype_class(t) != DTypeClass::Int) return constant_int(k, t, max ? 0 : -1);
  int64_t least = bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1));
  return constant_int(k, t, max ? least : -(least + 1));
}

Expr combine_lanes(ExprOp combine, Expr v) {
  switch (combine) {
    case ExprOp::Add: return reduce_add(v);
    case ExprOp::Mul: return reduce_mul(v);
    case ExprOp::Max: return reduce_max(v);
    case ExprOp::Min: return reduce_min(v);
    default: {
      Expr all = lane(v, 0);
      for (int i = 1; i < v.lanes(); ++i) all = make(combine, all, lane(v, i));
      return all;
    }
  }
}

Expr combine_group(Builder& b, const Mapping& m, ExprOp combine, Expr value, Expr lane, int64_t lanes) {
  int64_t warp = std::min<int64_t>(m.warp, lanes);
  Expr v = value;
  for (int64_t step = warp / 2; step > 0; step /= 2) v = b.let("sum", make(combine, v, b.shuffle_xor(v, static_cast<int>(step))));
  int64_t parts = lanes / std::max<int64_t>(warp, 1);
  if (parts == 1) return v;
  Buf partial = b.shared("partial", value.dtype(), parts);
  b.when(lane % warp == 0, [&] { partial.store(lane / warp, v); });
  b.barrier();
  for (int64_t step = parts / 2; step > 0; step /= 2) {
    b.when(lane < step, [&] { partial.store(lane, make(combine, partial[lane], partial[lane + step])); });
    b.barrier();
  }
  Expr all = partial[0];
  b.barrier();
  return all;
}

namespace {

struct Axes {
  Dims dims;
  Dims strides;
};

class ReduceBuilder {
 public:
  ReduceBuilder(Builder& b, const ReduceSpec& spec, const Mapping& m) : b_(b), s_(spec), m_(m) {
    Kernel* k = b.kernel();
    x_ = b.input(s_.input_name, s_.input, product(k, s_.shape));
    // Merge runs of kept or reduced axes, from the last to the first.
    Expr stride = b.i64(1);
    bool last_reduced = false, any = false;
    for (size_t d = s_.shape.size(); d-- > 0;) {
      Expr n = s_.shape[d].in(k);
      int64_t one = 0;
      if (!(constant(n, &one) && one == 1)) {
        Axes& axes = s_.reduced[d] ? reduced_ : kept_;
        if (any && last_reduced == s_.reduced[d]) axes.dims.front() = n * axes.dims.front().in(k);
        else {
          axes.dims.insert(axes.dims.begin(), n);
          axes.strides.insert(axes.strides.begin(), stride);
          if (!any) row_ = s_.reduced[d];
        }
        last_reduced = s_.reduced[d], any = true;
      }
      stride = stride * n;
    }
    if (reduced_.dims.empty()) reduced_ = {{1}, {1}}, row_ = row_ || kept_.dims.empty();
    results_ = product(k, kept_.dims), count_ = product(k, reduced_.dims);
    y_ = b.output(s_.output_name, s_.output, results_);
  }

  void run() {
    int64_t n = 0;
    if (m_.lanes && row_ && !(constant(count_, &n) && n < m_.warp)) return group_per_result();
    if (m_.lanes) return for_each(b_, m_, "i", results_, 0, [&](Expr i) { lane_per_result(i, 1); });
    if (row_) return rows();
    columns();
  }

 private:
  int element_bytes() const { return rlxc::bits(s_.accumulate) / 8; }

  Expr base(Expr result) {
    std::vector<Expr> index = split_index(result, kept_.dims);
    Expr at = b_.i64(0);
    for (size_t d = 0; d < index.size(); ++d) at = at + index[d] * kept_.strides[d].in(b_.kernel());
    return b_.let("base", at);
  }

  Expr value(Expr at, int lanes) {
    Expr v = cast_to(x_.load(at, lanes), compute_dtype(s_.input));
    return cast_to(s_.prepare ? s_.prepare(v) : v, s_.accumulate);
  }

  void finish(Expr at, Expr all) { y_.store(at, cast_to(s_.finish ? s_.finish(all, count_) : all, s_.output)); }

  Expr identity() { return identity_of(b_.kernel(), s_.combine, s_.accumulate); }

  // Loops over all reduced axes but the last `skip`, calling body with the offset into the input.
  void reduced_loops(Expr at, size_t skip, const std::function<void(Expr)>& body, size_t d = 0) {
    if (d + skip >= reduced_.dims.size()) return body(at);
    b_.loop("r", reduced_.dims[d],
            [&](Expr r) { reduced_loops(at + r * reduced_.strides[d].in(b_.kernel()), skip, body, d + 1); });
  }

  // Row by row; four vectors of accumulators hide the latency of the combination.
  void rows() {
    Expr n = reduced_.dims.back().in(b_.kernel());
    int64_t row = 0;
    bool known = constant(n, &row);
    int lanes = m_.vector_lanes(std::max(element_bytes(), rlxc::bits(compute_dtype(s_.input)) / 8));
    while (known && lanes > 1 && lanes > row) lanes /= 2;
    int chains = known ? static_cast<int>(std::clamp<int64_t>(row / lanes, 1, 4)) : lanes > 1 ? 4 : 1;
    int64_t bytes = known ? row * rlxc::bits(s_.input) / 8 : 4096;
    for_each(b_, m_, "i", results_, bytes, [&](Expr i) {
      Expr start = base(i);
      std::vector<Buf> acc;
      for (int c = 0; c < chains; ++c) acc.push_back(b_.variable("acc", broadcast(identity(), lanes)));
      Buf rest = b_.variable("rest", identity());
      auto step = [&](Buf a, Expr at, int w) { a.set(make(s_.combine, a.get(), value(at, w))); };
      reduced_loops(start, 1, [&](Expr at) {
        int64_t left = 0;
        b_.loop("j", n / (lanes * chains), [&](Expr j) {
          for (int c = 0; c < chains; ++c) step(acc[c], at + (j * chains + c) * lanes, lanes);
        });
        Expr done = n / (lanes * chains) * chains;
        Expr vectors = n / lanes - done;
        if (chains > 1 && !(constant(vectors, &left) && left == 0))
          b_.loop("j", vectors, [&](Expr j) { step(acc[0], at + (done + j) * lanes, lanes); });
        Expr tail = n % lanes;
        if (lanes > 1 && !(constant(tail, &left) && left == 0))
          b_.loop("t", tail, [&](Expr t) { step(rest, at + n / lanes * lanes + t, 1); });
      });
      Expr all = acc[0].get();
      for (int c = 1; c < chains; ++c) all = make(s_.combine, all, acc[c].get());
      finish(i, make(s_.combine, combine_lanes(s_.combine, all), rest.get()));
    });
  }

  // The last axis is kept: vectors of neighbouring results.
  void columns() {
    Expr inner = kept_.dims.back().in(b_.kernel());
    int64_t n = 0, left = 0;
    bool known = constant(inner, &n);
    int lanes = m_.vector_lanes(std::max({element_bytes(), rlxc::bits(compute_dtype(s_.input)) / 8, rlxc::bits(s_.output) / 8}));
    while (known && lanes > 1 && lanes > n) lanes /= 2;
    Dims outer(kept_.dims.begin(), kept_.dims.end() - 1);
    Expr rows = product(b_.kernel(), outer), chunks = inner / lanes;
    for_each(b_, m_, "i", rows * chunks, 4096, [&](Expr i) {
      Expr row = b_.let("row", i / chunks), chunk = b_.let("chunk", i % chunks);
      lane_per_result(row * inner + chunk * lanes, lanes);
    });
    Expr tail = inner % lanes;
    if (lanes > 1 && !(constant(tail, &left) && left == 0))
      b_.loop("i", rows * tail, [&](Expr i) { lane_per_result(i / tail * inner + chunks * lanes + i % tail, 1); });
  }

  void lane_per_result(Expr result, int lanes) {
    Expr at = b_.let("at", result), start = base(at);
    Buf acc = b_.variable("acc", broadcast(identity(), lanes));
    reduced_loops(start, 0, [&](Expr from) { acc.set(make(s_.combine, acc.get(), value(from, lanes))); });
    finish(at, acc.get());
  }

  void group_per_result() {
    int64_t n = 0, lanes = m_.group_lanes;
    if (constant(reduced_.dims.back(), &n))
      while (lanes > m_.warp && lanes / 2 >= n) lanes /= 2;
    for_each_group(b_, m_, "i", results_, lanes, [&](Expr i, Expr lane) {
      Expr start = base(i);
      Buf acc = b_.variable("acc", identity());
      Expr last = reduced_.dims.back().in(b_.kernel());
      reduced_loops(start, 1, [&](Expr at) {
        b_.loop("j", ceil_div(last, lanes), [&](Expr j) {
          Expr r = b_.let("r", j * lanes + lane);
          b_.when(r < last, [&] { acc.set(make(s_.combine, acc.get(), value(at + r, 1))); });
        });
      });
      Expr all = combine_group(b_, m_, s_.combine, acc.get(), lane, lanes);
      b_.when(lane == 0, [&] { finish(i, all); });
    });
  }

  Builder& b_;
  const ReduceSpec& s_;
  const Mapping& m_;
  Axes kept_, reduced_;
  bool row_ = false;  // the last axis is reduced
  Expr results_, count_;
  Buf x_, y_;
};

}  // namespace

void build_reduce(Builder& b, const ReduceSpec& spec, const Mapping& m) { ReduceBuilder(b, spec, m).run(); }

}  // namespace rlxc::kernel
