#include "kernel/builders/row.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernel/builders/generate.h"
#include "kernel/builders/reduce.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kRowsBeside = 8;
constexpr int64_t kLongRow = 4096;  // elements of a row that is computed alone

}  // namespace

void build_softmax(Builder& b, const SoftmaxSpec& s, const Mapping& machine) {
  Kernel* k = b.kernel();
  Buf x = b.input("x", s.dtype, product(k, s.shape));
  const FusedInputs inputs(b, s.epilogue.inputs);
  Buf y = b.output("y", s.result, product(k, s.shape));
  const auto stored = [&](Expr v) {
    const std::vector<Expr> first(s.shape.size(), b.i64(0));
    return cast_to(inputs.values(s.epilogue.body, {&v, 1}, first)[0], s.result);
  };
  const DType t = compute_dtype(s.dtype);
  const Expr n = s.shape[s.axis].in(k), inner = product(k, s.shape, s.axis + 1);
  if (same(inner, 1)) {
    int lanes = machine.workgroups ? machine.load_lanes(static_cast<int>(rlxc::bits(s.dtype)) / 8) : vector_for(machine, n, t);
    while (machine.workgroups && lanes > 1 && !is_multiple(n, lanes)) lanes /= 2;
    const Expr rows = product(k, s.shape, 0, s.axis);
    const Mapping m = mapping_of_rows(machine, rows, n, lanes);
    const bool keep = !m.workgroups && !s.log && s.result == t;  // the exponentials, in y or beside it
    auto value = [&](Expr at, int w) { return cast_to(x.load(at, w), t); };
    auto walk = [&](std::optional<Expr> thread, int slots, const std::function<void(Expr, int, int)>& body) {
      across(b, n, lanes, thread, m.workgroup_size, slots, body);
    };
    int64_t length = kRowsBeside * kLongRow;
    constant(n, &length);
    const int64_t beside = std::clamp<int64_t>(kLongRow / std::max<int64_t>(length, 1), 1, kRowsBeside);
    const bool streams = (!keep || length <= kLongRow) && stream(y, m);
    Buf kept = y;
    Expr kept_row = b.i64(0);  // of y: its first element; else 0, or where one of several rows begins
    const auto keep_rows = [&] {
      if (keep && streams) kept = b.registers("exponentials", t, beside * length);
    };
    auto top_of = [&](Expr base, std::optional<Expr> thread) {
      Accumulator top(b, ExprOp::Max, t, lanes);
      walk(thread, top.slots(), [&](Expr i, int w, int slot) { top.add(value(base + i, w), slot); });
      return b.let("most", finite_or_zero(top.result(m, thread, m.workgroup_size)));
    };
    auto scale_of = [&](Expr base, Expr most, std::optional<Expr> thread) {
      Accumulator sum(b, ExprOp::Add, t, lanes);
      walk(thread, sum.slots(), [&](Expr i, int w, int slot) {
        const Expr e = b.let("e", exp_of_softmax(value(base + i, w) - broadcast(most, w), m));
        if (!m.workgroups && w > 1) x.prefetch(base + i + n * beside);  // rows that follow arrive meanwhile
        if (keep) kept.store((streams ? kept_row : base) + i, e);
        sum.add(e, slot);
      });
      const Expr total = sum.result(m, thread, m.workgroup_size);
      return s.log ? b.let("shift", most + log(total)) : b.let("scale", select(total == 0.0, total, 1.0 / total));
    };
    auto write = [&](Expr base, Expr most, Expr scale, std::optional<Expr> thread) {
      walk(thread, 1, [&](Expr i, int w, int) {
        const Expr factor = broadcast(scale, w);
        const Expr v = s.log  ? value(base + i, w) - factor
                       : keep ? kept.load((streams ? kept_row : base) + i, w) * factor
                              : exp_of_softmax(value(base + i, w) - broadcast(most, w), m) * factor;
        y.store(base + i, stored(v));
      });
    };
    if (m.workgroups || beside == 1) {
      per_row(b, m, rows, n, rlxc::bits(t) / 8, [&](Expr row, std::optional<Expr> thread) {
        keep_rows();
        const Expr base = b.let("base", row * n), most = top_of(base, thread);
        write(base, most, scale_of(base, most, thread), thread);
      });
      return;
    }
    // Interleaves several short rows, because each step within a row depends on the previous one.
    for_each(b, m, "block", ceil_div(rows, beside), beside * length * rlxc::bits(t) / 4, [&](Expr block) {
      const Expr first = b.let("first", block * beside), count = b.let("count", min(rows - first, beside));
      Buf tops = b.registers("tops", t, beside), scales = b.registers("scales", t, beside);
      keep_rows();
      auto each = [&](const std::function<void(Expr, Expr)>& body) {
        b.loop("r", count, [&](Expr r) {
          if (streams) kept_row = b.let("kept", r * n);
          body(r, b.let("base", (first + r) * n));
        });
      };
      each([&](Expr r, Expr base) { tops.store(r, top_of(base, {})); });
      each([&](Expr r, Expr base) { scales.store(r, scale_of(base, tops.load(r), {})); });
      each([&](Expr r, Expr base) { write(base, tops.load(r), scales.load(r), {}); });
    });
    return;
  }
  for_each_row_vector(b, machine, s.shape, s.axis, t, 4096, [&](Expr base, Expr stride, int lanes) {
    const bool keep = !machine.workgroups && !s.log && s.result == t;  // y buffers the exponentials
    auto value = [&](Expr i) { return cast_to(x.load(base + i * stride, lanes), t); };
    Buf top = b.variable("top", broadcast(identity_of(k, ExprOp::Max, t), lanes)),
        sum = b.variable("sum", broadcast(constant(k, t, 0), lanes));
    b.loop("i", n, [&](Expr i) { top.set(max(top.get(), value(i))); });
    const Expr most = b.let("most", finite_or_zero(top.get()));
    b.loop("i", n, [&](Expr i) {
      const Expr e = b.let("e", exp(value(i) - most));
      if (keep) y.store(base + i * stride, e);
      sum.set(sum.get() + e);
    });
    const Expr all = b.let("all", sum.get());
    const Expr total = s.log ? b.let("shift", most + log(all)) : b.let("scale", select(all == 0.0, all, 1.0 / all));
    b.loop("i", n, [&](Expr i) {
      const Expr v = s.log ? value(i) - total : keep ? y.load(base + i * stride, lanes) * total : exp(value(i) - most) * total;
      y.store(base + i * stride, stored(v));
    });
  });
}

namespace {

class NormBuilder : RowBuilder {
 public:
  NormBuilder(Builder& b, const NormSpec& spec, const Mapping& m)
      : RowBuilder(b, spec, m), norm_(spec), last_(spec.norms.size() - 1) {}

  void run() {
    each_row([&](Thread thread) {
      if (gathers_) gather(thread);
      statistics_.clear();
      for (const NormSpec::Norm& n : norm_.norms)
        n.kind == RowNorm::Softmax || n.kind == RowNorm::LogSoftmax ? softmax(thread) : gather_statistics(n, thread);
      if (!statistics_.empty())
        write(thread, [&](const Place& p, const LoadInput& load) { return normalised(last_, p, value_again(last_, p, load)); });
    });
  }

 private:
  struct Statistics {
    Expr mean, scale;  // mean: of centred norms
  };

  // The thread that reads an element back copies it.
  void gather(Thread thread) {
    const int lanes = std::exchange(lanes_, 1);
    walk(thread, 1, [&](const Place& p, int) { store(0, p, loader(p)(0)); });
    lanes_ = lanes;
  }
  LoadInput loads(const Place& p) {
    if (!gathers_) return loader(p);
    const size_t result = s_.inputs.size();
    return [this, &p, result, load = loader(p)](size_t i) {
      return i > 0 ? load(i) : cast_to(bufs_[result].load(address(result, p), p.lanes), compute_dtype(s_.inputs[0].dtype));
    };
  }

  Expr normalised(size_t norm, const Place& p, Expr v) const {
    const Statistics& s = statistics_[norm];
    return (s.mean.kernel ? v - broadcast(s.mean, p.lanes) : v) * broadcast(s.scale, p.lanes);
  }
  std::vector<Expr> normalised_before(size_t norm, const Place& p, const LoadInput& load) {
    std::vector<Expr> all;
    for (size_t i = 0; i < norm; ++i)
      all.push_back(b_.let("n", normalised(i, p, broadcast(norm_.norms[i].prologue.body(all, load)[0], p.lanes))));
    return all;
  }
  Expr value(size_t norm, const Place& p, const LoadInput& load) {
    return b_.let("v", broadcast(norm_.norms[norm].prologue.body(normalised_before(norm, p, load), load)[0], p.lanes));
  }
  Expr value_again(size_t norm, const Place& p, const LoadInput& load) {
    const bool kept = norm == last_ && norm_.keep && s_.outputs[1].dtype == s_.compute;
    const size_t i = s_.inputs.size() + 1;
    return kept ? bufs_[i].load(address(i, p), p.lanes) : value(norm, p, load);
  }
  Expr first_value(size_t norm, const Place& p) {
    const Expr v = value(norm, p, loads(p));
    if (norm == last_ && norm_.keep) store(1, p, v);
    return v;
  }

  // Fetches the operands of the row that follows, while this one is computed.
  void fetch_next(const Place& p) {
    if (m_.workgroups || p.lanes == 1 || s_.axis == 0) return;
    for (size_t i = 0; i < s_.inputs.size(); ++i)
      if (const Index& step = s_.inputs[i].strides[s_.axis - 1]; !s_.inputs[i].split(s_.axis - 1) && !is_constant(step, 0))
        bufs_[i].prefetch(address(i, p) + step.in(k_));
  }

  // Combines `term` over the elements of the row.
  Expr gathered(ExprOp combine, Thread thread, const std::function<Expr(const Place&)>& term) {
    Accumulator all(b_, combine, s_.compute, lanes_);
    walk(thread, all.slots(), [&](const Place& p, int slot) { all.add(term(p), slot); });
    return all.result(m_, thread, m_.workgroup_size);
  }
  void write(Thread thread, const std::function<Expr(const Place&, const LoadInput&)>& of_last) {
    walk(thread, 1, [&](const Place& p, int) {
      const LoadInput load = loads(p);
      const Expr n = b_.let("n", of_last(p, load));
      if (!norm_.epilogue.body) return store(0, p, n);
      std::vector<Expr> all = normalised_before(last_, p, load);
      all.push_back(n);
      std::vector<Expr> values = norm_.epilogue.body(all, load);
      // The others are computed before the first one overwrites an operand.
      for (size_t i = 1; i < values.size(); ++i) values[i] = b_.let("also", broadcast(values[i], p.lanes));
      store(0, p, values[0]);
      for (size_t i = 1; i < values.size(); ++i) store(norm_.keep + i, p, values[i]);
    });
  }

  void gather_statistics(const NormSpec::Norm& norm, Thread thread) {
    const size_t at = statistics_.size();
    const bool centred = norm.kind == RowNorm::Centred;
    const Expr count = cast_to(size(), s_.compute);
    Statistics s;
    Expr square = gathered(ExprOp::Add, thread,
                           [&](const Place& p) {
                             const Expr v = first_value(at, p);
                             return centred ? v : v * v;
                           }) /
                  count;
    if (centred) {
      s.mean = b_.let("mean", square);
      square = gathered(ExprOp::Add, thread,
                        [&](const Place& p) {
                          fetch_next(p);
                          const Expr d = b_.let("d", value_again(at, p, loads(p)) - broadcast(s.mean, p.lanes));
                          return d * d;
                        }) /
               count;
    }
    s.scale = b_.let("scale", 1.0 / sqrt(square + norm.eps));
    statistics_.push_back(s);
  }

  void softmax(Thread thread) {
    const bool log_of = norm_.norms[0].kind == RowNorm::LogSoftmax;
    const bool waits =
        !log_of && !norm_.epilogue.body && s_.outputs[0].dtype == s_.compute;  // the result buffers the exponentials
    const Expr most =
        b_.let("most", finite_or_zero(gathered(ExprOp::Max, thread, [&](const Place& p) { return first_value(0, p); })));
    const auto exponential = [&](const Place& p, const LoadInput& load) {
      return exp_of_softmax(value_again(0, p, load) - broadcast(most, p.lanes), m_);
    };
    const Expr sum = gathered(ExprOp::Add, thread, [&](const Place& p) {
      fetch_next(p);
      const Expr e = b_.let("e", exponential(p, loads(p)));
      if (waits) store(0, p, e);
      return e;
    });
    const Expr last = log_of ? b_.let("shift", most + log(sum)) : b_.let("scale", select(sum == 0.0, sum, 1.0 / sum));
    const size_t result = s_.inputs.size();
    write(thread, [&](const Place& p, const LoadInput& load) {
      const Expr wide = broadcast(last, p.lanes);
      if (log_of) return value_again(0, p, load) - wide;
      return (waits ? bufs_[result].load(address(result, p), p.lanes) : exponential(p, load)) * wide;
    });
  }

  const NormSpec& norm_;
  const size_t last_;
  std::vector<Statistics> statistics_;  // of the current row, by norm; none for a softmax
};

}  // namespace

void build_norm(Builder& b, const NormSpec& s, const Mapping& m) { NormBuilder(b, s, m).run(); }

void build_rotate_norm(Builder& b, const RotateNormSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  const DType t = compute_dtype(s.x[0].dtype);
  const Expr pairs = s.pairs.in(k);
  struct Half {
    Buf x, gamma, cosine, sine, y;
  } half[2];
  bool vectors = true;
  auto in = [&](const Operand& o) {
    vectors = vectors && (same(o.strides.back(), 1) || same(o.strides.back(), 0));
    return b.input(o.name, o.dtype, o.extent);
  };
  for (int i : {0, 1}) half[i].x = in(s.x[i]);
  for (int i : {0, 1}) {
    half[i].cosine = in(s.cosine[i]);
    half[i].sine = in(s.sine[i]);
  }
  for (int i : {0, 1}) half[i].gamma = in(s.gamma[i]);
  const FusedInputs inputs(b, s.epilogue.inputs);
  for (int i : {0, 1}) half[i].y = b.output(s.y[i].name, s.y[i].dtype, s.y[i].extent);
  vectors = vectors && same(s.y[0].strides.back(), 1);
  const int lanes = vectors ? vector_for(m, pairs, t) : 1;
  per_row(b, m, product(k, s.rows), pairs * 2, rlxc::bits(t) / 8, [&](Expr row, std::optional<Expr> thread) {
    const std::vector<Expr> at = split_index(row, s.rows);
    auto place = [&](const Operand& o, Expr i) {
      Expr where = o.offset.in(k) + i * o.strides.back().in(k);
      for (size_t d = 0; d < at.size(); ++d) where = where + at[d] * o.strides[d].in(k);
      return where;
    };
    auto load = [&](const Buf& buf, const Operand& o, Expr i, int w) {
      return cast_to(buf.load(place(o, i), same(o.strides.back(), 0) ? 1 : w), t);
    };
    Accumulator squares(b, ExprOp::Add, t, lanes);
    across(b, pairs, lanes, thread, m.workgroup_size, squares.slots(), [&](Expr i, int w, int slot) {
      const Expr first = b.let("v", load(half[0].x, s.x[0], i, w)), second = b.let("v", load(half[1].x, s.x[1], i, w));
      squares.add(first * first + second * second, slot);
    });
    std::vector<Expr> ends;
    for (size_t i = 0; i < inputs.size(); ++i) ends.push_back(b.let("end", inputs.load(i, place(inputs.operand(i), b.i64(0)))));
    const auto ended = [&](Expr v) { return fused_values(s.epilogue.body, {&v, 1}, ends)[0]; };
    const Expr scale = b.let("scale", 1.0 / sqrt(squares.result(m, thread, m.workgroup_size) / cast_to(pairs * 2, t) + s.eps));
    across(b, pairs, lanes, thread, m.workgroup_size, 1, [&](Expr i, int w, int) {
      Expr v[2], c[2], sine[2];
      for (int h : {0, 1}) {
        v[h] = load(half[h].x, s.x[h], i, w) * broadcast(scale, w) * load(half[h].gamma, s.gamma[h], i, w);
        v[h] = b.let("v", v[h]);
        c[h] = load(half[h].cosine, s.cosine[h], i, w);
        sine[h] = load(half[h].sine, s.sine[h], i, w);
      }
      half[0].y.store(place(s.y[0], i), broadcast(cast_to(ended(v[0] * c[0] - v[1] * sine[0]), s.y[0].dtype), w));
      half[1].y.store(place(s.y[1], i), broadcast(cast_to(ended(v[1] * c[1] + v[0] * sine[1]), s.y[1].dtype), w));
    });
  });
}

}  // namespace rlxc::kernel
