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

Expr combine_shuffled(Builder& b, const char* name, ExprOp combine, Expr v, int64_t count) {
  for (int64_t step = count / 2; step > 0; step /= 2) v = b.let(name, make(combine, v, b.shuffle_xor(v, static_cast<int>(step))));
  return v;
}

int64_t parts_of_thread(int64_t parts) {
  constexpr int64_t kMost = 16;
  int64_t each = parts;
  if (parts > kMost)
    for (each = 2; each < kMost && each * each < parts;) each *= 2;
  return each;
}

namespace {

Expr combine_warp(Builder& b, const Mapping& m, ExprOp combine, Expr v, int64_t threads) {
  const DType t = v.dtype();
  const bool is_reduced = combine == ExprOp::Add || combine == ExprOp::Max || combine == ExprOp::Min;
  if (m.warp_reduces && is_reduced && threads == m.warp && (t == DType::F32 || t == DType::I32 || t == DType::U32))
    return b.warp_reduce({combine, m.warp}, v);
  return combine_shuffled(b, "sum", combine, v, threads);
}

Expr combine_elements(const Mapping& m, ExprOp combine, const Buf& of, Expr first, int64_t count) {
  const DType t = of.type().dtype;
  const int64_t lanes = t == DType::Bool ? 1 : std::min<int64_t>(count, m.load_lanes(static_cast<int>(rlxc::bits(t)) / 8));
  Expr all = of.load(first, static_cast<int>(lanes));
  for (int64_t i = lanes; i < count; i += lanes) all = make(combine, all, of.load(first + i, static_cast<int>(lanes)));
  return lanes > 1 ? combine_lanes(combine, all) : all;
}

}  // namespace

Expr combine_group(Builder& b, const Mapping& m, ExprOp combine, Expr value, Expr thread, int64_t threads) {
  int64_t warp = std::min<int64_t>(m.warp, threads);
  Expr v = combine_warp(b, m, combine, value, warp);
  int64_t parts = threads / std::max<int64_t>(warp, 1);
  if (parts == 1) return v;
  Buf partial = b.shared("partial", value.dtype(), parts);
  b.when(thread % warp == 0, [&] { partial.store(thread / warp, v); });
  b.barrier();
  for (int64_t each; (each = parts_of_thread(parts)) < parts;) {
    parts /= each;
    const Buf fewer = b.shared("partial", value.dtype(), parts);
    b.when(thread < parts, [&] { fewer.store(thread, combine_elements(m, combine, partial, thread * each, each)); });
    b.barrier();
    partial = fewer;
  }
  Expr all = b.let("all", combine_elements(m, combine, partial, b.i64(0), parts));
  b.barrier();
  return all;
}

namespace {

constexpr int64_t kLeastShared = 64;                   // elements of a result that threads share
constexpr int64_t kLeastBeside = 8, kMostBeside = 32;  // results of a workgroup
constexpr int64_t kManyResults = 1 << 17;              // enough threads without sharing

// Axes of the index space: their dims, and each input's strides along them.
struct Axes {
  Dims dims;
  std::vector<Dims> strides;  // by axis, then input
};

class ReduceBuilder {
 public:
  ReduceBuilder(Builder& b, const ReduceSpec& spec, const Mapping& m) : b_(b), s_(spec), m_(m) {
    Kernel* k = b.kernel();
    for (const Operand& o : s_.inputs) inputs_.push_back(b.input(o.name, o.dtype, o.extent));
    // Merges runs of kept or reduced axes, from the last to the first.
    bool last_reduced = false, any = false;
    for (size_t d = s_.shape.size(); d-- > 0;) {
      const Expr n = s_.shape[d].in(k);
      int64_t one = 0;
      if (constant(n, &one) && one == 1) continue;
      Axes& axes = s_.reduced[d] ? reduced_ : kept_;
      if (any && last_reduced == s_.reduced[d] && continues(d, axes)) {
        axes.dims.front() = n * axes.dims.front().in(k);
      } else {
        axes.dims.insert(axes.dims.begin(), n);
        Dims steps;
        for (const Operand& o : s_.inputs) steps.push_back(o.strides[d]);
        axes.strides.insert(axes.strides.begin(), steps);
        if (!any) row_ = s_.reduced[d];
      }
      last_reduced = s_.reduced[d];
      any = true;
    }
    if (reduced_.dims.empty()) {
      reduced_ = {{1}, {Dims(s_.inputs.size(), 0)}};
      row_ = row_ || kept_.dims.empty();
    }
    results_ = product(k, kept_.dims);
    count_ = product(k, reduced_.dims);
    y_ = b.output(s_.output.name, s_.output.dtype, results_);
    for (const Operand& o : s_.inputs) {
      widest_ = std::max(widest_, rlxc::bits(compute_dtype(o.dtype)) / 8);
      bytes_ += rlxc::bits(o.dtype) / 8;
    }
  }

  void run() {
    int64_t n = 0;
    if (m_.workgroups && row_ && !(constant(count_, &n) && n < m_.warp)) return group_per_result();
    if (m_.workgroups && group_of_columns()) return;
    if (m_.workgroups) return for_each(b_, m_, "i", results_, 0, [&](Expr i) { thread_per_result(i, 1); });
    if (row_) return rows();
    columns();
  }

 private:
  using Place = std::vector<Expr>;  // offset in each input

  // Returns whether axis d is collapsible with the first of `axes` in every input.
  bool continues(size_t d, const Axes& axes) const {
    for (size_t i = 0; i < s_.inputs.size(); ++i)
      if (!same(s_.inputs[i].strides[d], axes.strides.front()[i].in(b_.kernel()) * axes.dims.front().in(b_.kernel())))
        return false;
    return true;
  }

  // Returns the vector lanes along the last of `axes`: 1 if an input is strided there.
  int vector_lanes(const Axes& axes, int element_bytes) const {
    for (const Index& step : axes.strides.back())
      if (int64_t n = 0; !constant(step, &n) || n > 1) return 1;
    int lanes = m_.vector_lanes(std::max({rlxc::bits(s_.accumulate) / 8, widest_, element_bytes}));
    int64_t length = 0;
    while (constant(axes.dims.back(), &length) && lanes > 1 && lanes > length) lanes /= 2;
    return lanes;
  }

  Place moved(const Place& from, const Axes& axes, size_t d, Expr by) const {
    Place to;
    for (size_t i = 0; i < from.size(); ++i) to.push_back(from[i] + by * axes.strides[d][i].in(b_.kernel()));
    return to;
  }

  Place base(Expr result) {
    const std::vector<Expr> index = split_index(result, kept_.dims);
    Place at(inputs_.size(), b_.i64(0));
    for (size_t d = 0; d < index.size(); ++d) at = moved(at, kept_, d, index[d]);
    for (Expr& a : at) a = b_.let("base", a);
    return at;
  }

  // Loads inputs at an element. `along`: the axes whose last one is vectorized.
  LoadInput loader(const Place& at, const Axes& along, int lanes) const {
    return [this, &at, &along, lanes](size_t i) {
      int64_t step = 1;
      const bool one = lanes == 1 || (constant(along.strides.back()[i], &step) && step == 0);
      return cast_to(inputs_[i].load(at[i], one ? 1 : lanes), compute_dtype(s_.inputs[i].dtype));
    };
  }

  Expr value(const Place& at, const Axes& along, int lanes) {
    const LoadInput load = loader(at, along, lanes);
    return broadcast(cast_to(s_.prologue.body ? s_.prologue.body({}, load)[0] : load(0), s_.accumulate), lanes);
  }

  void finish(Expr result, Expr all, const Place& at) {
    const Expr roots[] = {all, count_};
    if (s_.epilogue.body) all = s_.epilogue.body(roots, loader(at, kept_, all.lanes()))[0];
    y_.store(result, cast_to(all, s_.output.dtype));
  }

  Expr identity() { return identity_of(b_.kernel(), s_.combine, s_.accumulate); }

  // Loops over all reduced axes but the last `skip`.
  void reduced_loops(const Place& at, size_t skip, const std::function<void(const Place&)>& body, size_t d = 0) {
    if (d + skip >= reduced_.dims.size()) return body(at);
    b_.loop("r", reduced_.dims[d], [&](Expr r) { reduced_loops(moved(at, reduced_, d, r), skip, body, d + 1); });
  }

  // One row at a time. Four vectors of accumulators hide the latency of the combination.
  void rows() {
    Expr n = reduced_.dims.back().in(b_.kernel());
    int64_t row = 0;
    const bool known = constant(n, &row);
    const int lanes = vector_lanes(reduced_, 1);
    int chains = known ? static_cast<int>(std::clamp<int64_t>(row / lanes, 1, 4)) : lanes > 1 ? 4 : 1;
    for_each(b_, m_, "i", results_, known ? row * bytes_ : 4096, [&](Expr i) {
      const Place start = base(i);
      std::vector<Buf> acc;
      for (int c = 0; c < chains; ++c) acc.push_back(b_.variable("acc", broadcast(identity(), lanes)));
      Buf rest = b_.variable("rest", identity());
      reduced_loops(start, 1, [&](const Place& at) {
        auto step = [&](Buf a, Expr by, int w) {
          a.set(make(s_.combine, a.get(), value(moved(at, reduced_, reduced_.dims.size() - 1, by), reduced_, w)));
        };
        int64_t left = 0;
        b_.loop("j", n / (lanes * chains), [&](Expr j) {
          for (int c = 0; c < chains; ++c) step(acc[c], (j * chains + c) * lanes, lanes);
        });
        Expr done = n / (lanes * chains) * chains;
        Expr vectors = n / lanes - done;
        if (chains > 1 && !(constant(vectors, &left) && left == 0))
          b_.loop("j", vectors, [&](Expr j) { step(acc[0], (done + j) * lanes, lanes); });
        Expr tail = n % lanes;
        if (lanes > 1 && !(constant(tail, &left) && left == 0))
          b_.loop("t", tail, [&](Expr t) { step(rest, n / lanes * lanes + t, 1); });
      });
      Expr all = acc[0].get();
      for (int c = 1; c < chains; ++c) all = make(s_.combine, all, acc[c].get());
      finish(i, make(s_.combine, combine_lanes(s_.combine, all), rest.get()), start);
    });
  }

  // The last axis is not reduced: vectors of neighbouring results.
  void columns() {
    Expr inner = kept_.dims.back().in(b_.kernel());
    int64_t left = 0;
    const int lanes = vector_lanes(kept_, rlxc::bits(s_.output.dtype) / 8);
    Dims outer(kept_.dims.begin(), kept_.dims.end() - 1);
    Expr rows = product(b_.kernel(), outer), chunks = inner / lanes;
    for_each(b_, m_, "i", rows * chunks, 4096, [&](Expr i) {
      Expr row = b_.let("row", i / chunks), chunk = b_.let("chunk", i % chunks);
      thread_per_result(row * inner + chunk * lanes, lanes);
    });
    Expr tail = inner % lanes;
    if (lanes > 1 && !(constant(tail, &left) && left == 0))
      b_.loop("i", rows * tail, [&](Expr i) { thread_per_result(i / tail * inner + chunks * lanes + i % tail, 1); });
  }

  void thread_per_result(Expr result, int lanes) {
    Expr at = b_.let("at", result);
    const Place start = base(at);
    Buf acc = b_.variable("acc", broadcast(identity(), lanes));
    reduced_loops(start, 0, [&](const Place& from) { acc.set(make(s_.combine, acc.get(), value(from, kept_, lanes))); });
    finish(at, acc.get(), start);
  }

  // The last axis is not reduced, and results are too few to occupy a device with a thread for each: threads of a workgroup share
  // neighbouring results. Returns false if that does not pay.
  bool group_of_columns() {
    int64_t results = 0, count = kLeastShared, across = kMostBeside, threads = m_.max_workgroup_size;
    constant(count_, &count);
    if (!constant(results_, &results) || results == 0 || count < kLeastShared || results >= kManyResults) return false;
    while (across > kLeastBeside && results < 2 * m_.busy_workgroups * across) across /= 2;
    while (threads > across && threads / across > count) threads /= 2;
    const int64_t parts = threads / across;
    if (parts < 2) return false;
    for_each_workgroup(b_, m_, "group", ceil_div(results_, across), threads, [&](Expr group, Expr thread) {
      const Expr own = thread % across, part = b_.let("part", thread / across);
      const Expr result = b_.let("result", min(group * across + own, results_ - 1));
      const Place start = base(result);
      Buf acc = b_.variable("acc", identity());
      b_.loop("j", ceil_div(count_ - part, parts), [&](Expr j) {
        const std::vector<Expr> index = split_index(b_.let("r", j * parts + part), reduced_.dims);
        Place at = start;
        for (size_t d = 0; d < index.size(); ++d) at = moved(at, reduced_, d, index[d]);
        acc.set(make(s_.combine, acc.get(), value(at, kept_, 1)));
      });
      const Buf partial = b_.shared("partial", s_.accumulate, threads);
      partial.store(thread, acc.get());
      for (int64_t left = parts; left > 1;) {
        const int64_t each = parts_of_thread(left);
        left /= each;
        b_.barrier();
        b_.when(part < left, [&] {
          Expr sum = partial.load(thread);
          for (int64_t i = 1; i < each; ++i) sum = make(s_.combine, sum, partial.load(thread + i * left * across));
          partial.store(thread, sum);
        });
      }
      b_.when(part == 0 && group * across + own < results_, [&] { finish(result, partial.load(thread), start); });
    });
    return true;
  }

  void group_per_result() {
    int64_t n = 0, threads = m_.workgroup_size;
    if (constant(reduced_.dims.back(), &n))
      while (threads > m_.warp && threads / 2 >= n) threads /= 2;
    for_each_workgroup(b_, m_, "i", results_, threads, [&](Expr i, Expr thread) {
      const Place start = base(i);
      Buf acc = b_.variable("acc", identity());
      Expr last = reduced_.dims.back().in(b_.kernel());
      reduced_loops(start, 1, [&](const Place& at) {
        b_.loop("j", ceil_div(last, threads), [&](Expr j) {
          Expr r = b_.let("r", j * threads + thread);
          const Place to = moved(at, reduced_, reduced_.dims.size() - 1, r);
          b_.when(r < last, [&] { acc.set(make(s_.combine, acc.get(), value(to, reduced_, 1))); });
        });
      });
      Expr all = combine_group(b_, m_, s_.combine, acc.get(), thread, threads);
      b_.when(thread == 0, [&] { finish(i, all, start); });
    });
  }

  Builder& b_;
  const ReduceSpec& s_;
  const Mapping& m_;
  Axes kept_, reduced_;
  bool row_ = false;  // the last axis is reduced
  Expr results_, count_;
  std::vector<Buf> inputs_;
  Buf y_;
  int widest_ = 1;     // widest compute type of an input, in bytes
  int64_t bytes_ = 0;  // bytes per element of all inputs together
};

}  // namespace

void build_reduce(Builder& b, const ReduceSpec& spec, const Mapping& m) { ReduceBuilder(b, spec, m).run(); }

}  // namespace rlxc::kernel
