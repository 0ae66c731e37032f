#include "kernel/builders/row.h"

#include <algorithm>

#include "kernel/builders/generate.h"
#include "kernel/builders/reduce.h"

namespace rlxc::kernel {
namespace {

bool is_constant(const Index& i, int64_t want) {
  int64_t v = 0;
  return constant(i, &v) && v == want;
}

constexpr int64_t kRowsBeside = 8;
constexpr int kSums = 4;  // vectors accumulated beside each other, to hide the latency of an addition

// body(i, lanes, slot) for i = 0, lanes, 2*lanes ... and then one by one up to n, neighbours in different slots below `slots`. In
// a group of lanes, each takes its share.
void across(Builder& b, Expr n, int lanes, std::optional<Expr> lane, int64_t group, int slots,
            const std::function<void(Expr, int, int)>& body) {
  if (lane) {
    b.loop("j", ceil_div(n, group), [&](Expr j) {
      const Expr i = b.let("i", j * group + *lane);
      b.when(i < n, [&] { body(i, 1, 0); });
    });
    return;
  }
  const Expr vectors = n / lanes, turns = vectors / slots;
  b.loop("j", turns, [&](Expr j) {
    for (int u = 0; u < slots; ++u) body(b.let("i", (j * slots + u) * lanes), lanes, u);
  });
  if (slots > 1) b.loop("j", vectors - turns * slots, [&](Expr j) { body(b.let("i", (turns * slots + j) * lanes), lanes, 0); });
  const Expr rest = n % lanes;
  if (lanes > 1 && !is_constant(rest, 0)) b.loop("t", rest, [&](Expr t) { body(n / lanes * lanes + t, 1, 0); });
}

// A few accumulators for the vectors of a row, one for its tail.
class Accumulator {
 public:
  Accumulator(Builder& b, ExprOp combine, DType t, int lanes) : b_(b), combine_(combine), lanes_(lanes) {
    for (int i = 0; i < (lanes > 1 ? kSums : 1); ++i)
      wide_.push_back(b.variable("all", broadcast(identity_of(b.kernel(), combine, t), lanes)));
    if (lanes > 1) tail_ = b.variable("tail", identity_of(b.kernel(), combine, t));
  }
  int slots() const { return static_cast<int>(wide_.size()); }
  void add(Expr v, int slot) {
    Buf& to = v.lanes() == lanes_ ? wide_[static_cast<size_t>(slot)] : tail_;
    to.set(make(combine_, to.get(), v));
  }
  Expr result(const Mapping& m, std::optional<Expr> lane, int64_t group) {
    Expr all = wide_[0].get();
    for (size_t i = 1; i < wide_.size(); ++i) all = make(combine_, all, wide_[i].get());
    if (lanes_ > 1) all = make(combine_, combine_lanes(combine_, all), tail_.get());
    return b_.let("result", lane ? combine_group(b_, m, combine_, all, *lane, group) : all);
  }

 private:
  Builder& b_;
  ExprOp combine_;
  std::vector<Buf> wide_;
  Buf tail_;
  int lanes_;
};

// Calls body(row, lane): a group of lanes for each row on a grid, a thread elsewhere.
void per_row(Builder& b, const Mapping& m, Expr rows, Expr n, int element_bytes,
             const std::function<void(Expr, std::optional<Expr>)>& body) {
  int64_t length = 1024;
  constant(n, &length);
  if (m.lanes) return for_each_group(b, m, "row", rows, m.group_lanes, [&](Expr row, Expr lane) { body(row, lane); });
  for_each(b, m, "row", rows, length * element_bytes * 2, [&](Expr row) { body(row, std::nullopt); });
}

int vector_for(const Mapping& m, Expr n, DType compute) {
  int lanes = m.lanes ? 1 : m.vector_lanes(rlxc::bits(compute) / 8);
  int64_t length = 0;
  if (constant(n, &length))
    while (lanes > 1 && lanes > length) lanes /= 2;
  return lanes;
}

// The largest value of a row of -inf only would make NaN of its exponentials; they are 0.
Expr finite_or_zero(Expr top) { return select(isinf(top), lit(top, 0.0), top); }

}  // namespace

void build_softmax(Builder& b, const SoftmaxSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  Buf x = b.input("x", s.dtype, product(k, s.shape)), y = b.output("y", s.dtype, product(k, s.shape));
  const DType t = compute_dtype(s.dtype);
  const Expr n = s.shape[s.axis].in(k), inner = product(k, s.shape, s.axis + 1);
  if (is_constant(inner, 1)) {
    const int lanes = vector_for(m, n, t);
    const Expr rows = product(k, s.shape, 0, s.axis);
    const bool keep = !s.log && s.dtype == t;  // exponentials wait in y
    auto value = [&](Expr at, int w) { return cast_to(x.load(at, w), t); };
    auto walk = [&](std::optional<Expr> lane, int slots, const std::function<void(Expr, int, int)>& body) {
      across(b, n, lanes, lane, m.group_lanes, slots, body);
    };
    auto top_of = [&](Expr base, std::optional<Expr> lane) {
      Accumulator top(b, ExprOp::Max, t, lanes);
      walk(lane, top.slots(), [&](Expr i, int w, int slot) { top.add(value(base + i, w), slot); });
      return b.let("most", finite_or_zero(top.result(m, lane, m.group_lanes)));
    };
    auto scale_of = [&](Expr base, Expr most, std::optional<Expr> lane) {
      Accumulator sum(b, ExprOp::Add, t, lanes);
      walk(lane, sum.slots(), [&](Expr i, int w, int slot) {
        const Expr e = b.let("e", exp(value(base + i, w) - broadcast(most, w)));
        if (keep) y.store(base + i, e);
        sum.add(e, slot);
      });
      const Expr total = sum.result(m, lane, m.group_lanes);
      return s.log ? b.let("shift", most + log(total)) : b.let("scale", select(total == 0.0, total, 1.0 / total));
    };
    auto write = [&](Expr base, Expr most, Expr scale, std::optional<Expr> lane) {
      walk(lane, 1, [&](Expr i, int w, int) {
        const Expr factor = broadcast(scale, w);
        const Expr v = s.log  ? value(base + i, w) - factor
                       : keep ? y.load(base + i, w) * factor
                              : exp(value(base + i, w) - broadcast(most, w)) * factor;
        y.store(base + i, cast_to(v, s.dtype));
      });
    };
    int64_t length = kRowsBeside * 4096;
    constant(n, &length);
    const int64_t beside = std::clamp<int64_t>(4096 / std::max<int64_t>(length, 1), 1, kRowsBeside);
    if (m.lanes || beside == 1) {
      per_row(b, m, rows, n, rlxc::bits(t) / 8, [&](Expr row, std::optional<Expr> lane) {
        const Expr base = b.let("base", row * n), most = top_of(base, lane);
        write(base, most, scale_of(base, most, lane), lane);
      });
      return;
    }
    // Each step for several short rows, for within a row each waits for the one before.
    for_each(b, m, "block", ceil_div(rows, beside), beside * length * rlxc::bits(t) / 4, [&](Expr block) {
      const Expr first = b.let("first", block * beside), count = b.let("count", min(rows - first, beside));
      Buf tops = b.registers("tops", t, beside), scales = b.registers("scales", t, beside);
      auto each = [&](const std::function<void(Expr, Expr)>& body) {
        b.loop("r", count, [&](Expr r) { body(r, b.let("base", (first + r) * n)); });
      };
      each([&](Expr r, Expr base) { tops.store(r, top_of(base, {})); });
      each([&](Expr r, Expr base) { scales.store(r, scale_of(base, tops.load(r), {})); });
      each([&](Expr r, Expr base) { write(base, tops.load(r), scales.load(r), {}); });
    });
    return;
  }
  for_each_row(b, m, s.shape, s.axis, 4096, [&](Expr, Expr base, Expr stride) {
    auto value = [&](Expr i) { return cast_to(x.load(base + i * stride), t); };
    Buf top = b.variable("top", identity_of(k, ExprOp::Max, t)), sum = b.variable("sum", constant(k, t, 0));
    b.loop("i", n, [&](Expr i) { top.set(max(top.get(), value(i))); });
    const Expr most = b.let("most", finite_or_zero(top.get()));
    b.loop("i", n, [&](Expr i) { sum.set(sum.get() + exp(value(i) - most)); });
    const Expr all = b.let("all", sum.get());
    const Expr total = s.log ? b.let("shift", most + log(all)) : b.let("scale", select(all == 0.0, all, 1.0 / all));
    b.loop("i", n, [&](Expr i) {
      y.store(base + i * stride, cast_to(s.log ? value(i) - total : exp(value(i) - most) * total, s.dtype));
    });
  });
}

void build_norm(Builder& b, const NormSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  const DType t = compute_dtype(s.input);
  const Expr rows = s.rows.in(k), outer = s.outer.in(k), inner = s.inner.in(k), n = outer * inner;
  Buf x = b.input("x", s.input, rows * n);
  std::vector<Buf> addends;
  for (const Operand& o : s.addends) addends.push_back(b.input(o.name, o.dtype, o.extent));
  Buf gamma, beta, sums;
  if (s.gamma) gamma = b.input(s.gamma->name, s.gamma->dtype, s.gamma->extent);
  if (s.beta) beta = b.input(s.beta->name, s.beta->dtype, s.beta->extent);
  Buf y = b.output("y", s.output, rows * n);
  if (!s.addends.empty()) sums = b.output("sum", s.output, rows * n);

  auto fits = [](const Operand& o) { return is_constant(o.strides[2], 1) || is_constant(o.strides[2], 0); };
  bool vectors = (!s.gamma || fits(*s.gamma)) && (!s.beta || fits(*s.beta));
  for (const Operand& o : s.addends) vectors = vectors && fits(o);
  const int lanes = vectors ? vector_for(m, inner, t) : 1;
  per_row(b, m, rows, n, rlxc::bits(t) / 8, [&](Expr row, std::optional<Expr> lane) {
    const Expr base = b.let("base", row * n);
    const Expr group = is_constant(s.row_groups, 0) ? row : row % s.row_groups.in(k);
    auto walk = [&](int slots, const std::function<void(Expr, Expr, int, int)>& body) {
      auto row_of = [&](Expr c) {
        across(b, inner, lanes, lane, m.group_lanes, slots, [&](Expr i, int w, int slot) { body(c, i, w, slot); });
      };
      is_constant(outer, 1) ? row_of(b.i64(0)) : b.loop("c", outer, row_of);
    };
    auto other = [&](const Buf& buf, const Operand& o, Expr r, Expr c, Expr i, int w) {
      const Expr at = o.offset.in(k) + r * o.strides[0].in(k) + c * o.strides[1].in(k) + i * o.strides[2].in(k);
      return cast_to(buf.load(at, is_constant(o.strides[2], 0) ? 1 : w), t);
    };
    const bool stored = !s.addends.empty() && s.output == t;  // the sum can be read back as it is
    auto value = [&](Expr c, Expr i, int w, bool again) {
      if (again && stored) return sums.load(base + c * inner + i, w);
      Expr v = cast_to(x.load(base + c * inner + i, w), t);
      for (size_t a = 0; a < addends.size(); ++a) v = v + other(addends[a], s.addends[a], row, c, i, w);
      return v;
    };
    auto divide = [&](Expr sum) { return sum / cast_to(n, t); };
    Accumulator first(b, ExprOp::Add, t, lanes);
    walk(first.slots(), [&](Expr c, Expr i, int w, int slot) {
      const Expr v = b.let("v", value(c, i, w, false));
      if (!s.addends.empty()) sums.store(base + c * inner + i, cast_to(v, s.output));
      first.add(s.centred ? v : v * v, slot);
    });
    Expr mean, square = divide(first.result(m, lane, m.group_lanes));
    if (s.centred) {
      mean = b.let("mean", square);
      Accumulator second(b, ExprOp::Add, t, lanes);
      walk(second.slots(), [&](Expr c, Expr i, int w, int slot) {
        const Expr d = b.let("d", value(c, i, w, true) - broadcast(mean, w));
        second.add(d * d, slot);
      });
      square = divide(second.result(m, lane, m.group_lanes));
    }
    const Expr scale = b.let("scale", 1.0 / sqrt(square + s.eps));
    walk(1, [&](Expr c, Expr i, int w, int) {
      Expr v = value(c, i, w, true);
      if (s.centred) v = v - broadcast(mean, w);
      v = v * broadcast(scale, w);
      if (s.gamma) v = v * other(gamma, *s.gamma, group, c, i, w);
      if (s.beta) v = v + other(beta, *s.beta, group, c, i, w);
      y.store(base + c * inner + i, broadcast(cast_to(v, s.output), w));
    });
  });
}

void build_rotate_norm(Builder& b, const RotateNormSpec& s, const Mapping& m) {
  Kernel* k = b.kernel();
  const DType t = compute_dtype(s.x[0].dtype);
  const Expr pairs = s.pairs.in(k);
  struct Half {
    Buf x, gamma, cosine, sine, y;
  } half[2];
  bool vectors = true;
  auto in = [&](const Operand& o) {
    vectors = vectors && (is_constant(o.strides.back(), 1) || is_constant(o.strides.back(), 0));
    return b.input(o.name, o.dtype, o.extent);
  };
  for (int i : {0, 1}) half[i].x = in(s.x[i]);
  for (int i : {0, 1}) half[i].cosine = in(s.cosine[i]), half[i].sine = in(s.sine[i]);
  for (int i : {0, 1}) half[i].gamma = in(s.gamma[i]);
  for (int i : {0, 1}) half[i].y = b.output(s.y[i].name, s.y[i].dtype, s.y[i].extent);
  vectors = vectors && is_constant(s.y[0].strides.back(), 1);
  const int lanes = vectors ? vector_for(m, pairs, t) : 1;
  per_row(b, m, product(k, s.rows), pairs * 2, rlxc::bits(t) / 8, [&](Expr row, std::optional<Expr> lane) {
    const std::vector<Expr> at = split_index(row, s.rows);
    auto place = [&](const Operand& o, Expr i) {
      Expr where = o.offset.in(k) + i * o.strides.back().in(k);
      for (size_t d = 0; d < at.size(); ++d) where = where + at[d] * o.strides[d].in(k);
      return where;
    };
    auto load = [&](const Buf& buf, const Operand& o, Expr i, int w) {
      return cast_to(buf.load(place(o, i), is_constant(o.strides.back(), 0) ? 1 : w), t);
    };
    Accumulator squares(b, ExprOp::Add, t, lanes);
    across(b, pairs, lanes, lane, m.group_lanes, squares.slots(), [&](Expr i, int w, int slot) {
      const Expr first = b.let("v", load(half[0].x, s.x[0], i, w)), second = b.let("v", load(half[1].x, s.x[1], i, w));
      squares.add(first * first + second * second, slot);
    });
    const Expr scale = b.let("scale", 1.0 / sqrt(squares.result(m, lane, m.group_lanes) / cast_to(pairs * 2, t) + s.eps));
    across(b, pairs, lanes, lane, m.group_lanes, 1, [&](Expr i, int w, int) {
      Expr v[2], c[2], sine[2];
      for (int h : {0, 1}) {
        v[h] = load(half[h].x, s.x[h], i, w) * broadcast(scale, w) * load(half[h].gamma, s.gamma[h], i, w);
        v[h] = b.let("v", v[h]);
        c[h] = load(half[h].cosine, s.cosine[h], i, w), sine[h] = load(half[h].sine, s.sine[h], i, w);
      }
      half[0].y.store(place(s.y[0], i), broadcast(cast_to(v[0] * c[0] - v[1] * sine[0], s.y[0].dtype), w));
      half[1].y.store(place(s.y[1], i), broadcast(cast_to(v[1] * c[1] + v[0] * sine[1], s.y[1].dtype), w));
    });
  });
}

}  // namespace rlxc::kernel
