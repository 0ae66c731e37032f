#include "kernel/builders/row_walk.h"

#include <algorithm>

#include "kernel/builders/reduce.h"

namespace rlxc::kernel {
namespace {

constexpr int kSums = 4;             // independent accumulators, which hide the latency of an addition
constexpr int64_t kVectorsEach = 4;  // of a row, for a thread of a workgroup; 1 of few rows, whose time is that of a thread
constexpr int64_t kRowsOfBusy = 4;   // for each workgroup that occupies a device
constexpr int kMostLoads = 2;        // of a thread for a vector
constexpr int64_t kShortRow = 16;    // a thread reads shorter rows alone, on any grid

bool is_short(const Mapping& m, Expr n) {
  int64_t length = 0;
  return constant(n, &length) && length < std::max<int64_t>(m.warp, kShortRow);
}

}  // namespace

Expr finite_or_zero(Expr top) { return select(isinf(top), constant(top.kernel, top.dtype(), 0), top); }

void across(Builder& b, Expr n, int lanes, std::optional<Expr> thread, int64_t group, int slots,
            const std::function<void(Expr, int, int)>& body) {
  if (thread) {
    const Expr all = n / lanes;
    b.loop("j", ceil_div(all, group), [&](Expr j) {
      const Expr i = b.let("i", j * group + *thread);
      b.when(i < all, [&] { body(i * lanes, lanes, 0); });
    });
    return;
  }
  const Expr vectors = n / lanes, turns = vectors / slots;
  b.loop("j", turns, [&](Expr j) {
    for (int u = 0; u < slots; ++u) body(b.let("i", (j * slots + u) * lanes), lanes, u);
  });
  if (slots > 1) b.loop("j", vectors - turns * slots, [&](Expr j) { body(b.let("i", (turns * slots + j) * lanes), lanes, 0); });
  const Expr rest = n % lanes;
  if (lanes > 1 && !same(rest, 0)) b.loop("t", rest, [&](Expr t) { body(n / lanes * lanes + t, 1, 0); });
}

Accumulator::Accumulator(Builder& b, ExprOp combine, DType t, int lanes) : b_(b), combine_(combine), lanes_(lanes) {
  for (int i = 0; i < (lanes > 1 ? kSums : 1); ++i)
    wide_.push_back(b.variable("all", broadcast(identity_of(b.kernel(), combine, t), lanes)));
  if (lanes > 1) tail_ = b.variable("tail", identity_of(b.kernel(), combine, t));
}

void Accumulator::add(Expr v, int slot) {
  Buf& to = v.lanes() == lanes_ ? wide_[static_cast<size_t>(slot)] : tail_;
  to.set(make(combine_, to.get(), v));
}

Expr Accumulator::result(const Mapping& m, std::optional<Expr> thread, int64_t group) const {
  Expr all = wide_[0].get();
  for (size_t i = 1; i < wide_.size(); ++i) all = make(combine_, all, wide_[i].get());
  if (lanes_ > 1) all = make(combine_, combine_lanes(combine_, all), tail_.get());
  return b_.let("result", thread ? combine_group(b_, m, combine_, all, *thread, group) : all);
}

void per_row(Builder& b, const Mapping& m, Expr rows, Expr n, int element_bytes,
             const std::function<void(Expr, std::optional<Expr>)>& body) {
  int64_t length = 1024;
  constant(n, &length);
  if (m.workgroups && !is_short(m, n))
    return for_each_workgroup(b, m, "row", rows, m.workgroup_size, [&](Expr row, Expr thread) { body(row, thread); });
  for_each(b, m, "row", rows, length * element_bytes * 2, [&](Expr row) { body(row, std::nullopt); });
}

Mapping mapping_of_rows(Mapping m, Expr rows, Expr n, int lanes) {
  int64_t length = 0, count = 0;
  if (!m.workgroups || is_short(m, n) || !constant(n, &length)) return m;
  const bool few = constant(rows, &count) && count <= kRowsOfBusy * m.busy_workgroups;
  const int64_t each = few ? 1 : kVectorsEach;
  int64_t threads = std::max(m.warp, 1);
  while (2 * threads <= m.max_workgroup_size && threads * lanes * each < length) threads *= 2;
  m.workgroup_size = static_cast<int>(threads);
  return m;
}

int vector_for(const Mapping& m, Expr n, DType compute) {
  int lanes = m.workgroups ? 1 : m.vector_lanes(rlxc::bits(compute) / 8);
  int64_t length = 0;
  if (constant(n, &length))
    while (lanes > 1 && lanes > length) lanes /= 2;
  return lanes;
}

RowBuilder::RowBuilder(Builder& b, RowSpec spec, const Mapping& m) : b_(b), k_(b.kernel()), s_(std::move(spec)), m_(m) {
  for (Operand& o : s_.inputs) {
    operands_.push_back(&o);
    bufs_.push_back(b.input(o.name, o.dtype, o.extent));
  }
  for (Operand& o : s_.outputs) {
    operands_.push_back(&o);
    bufs_.push_back(b.output(o.name, o.dtype, o.extent));
    stream(bufs_.back(), m_);
  }
  if (merge_dims(k_, &s_.shape, operands_, s_.axis, s_.shape.size()) == s_.axis) {
    s_.shape.push_back(1);
    for (Operand* o : operands_) o->strides.push_back(1);
  }
  s_.axis = merge_dims(k_, &s_.shape, operands_, 0, s_.axis);
  if (s_.order) sort_dims(&s_.shape, operands_, s_.axis, s_.inputs[*s_.order]);
  const auto is_contiguous = [](const Operand& o) { return same(o.strides.back(), 1) || same(o.strides.back(), 0); };
  bool vectors = true;
  DType widest = s_.compute;
  gathers_ = s_.gathers && !is_contiguous(s_.inputs[0]);
  for (const Operand* o : operands_) {
    vectors = vectors && (is_contiguous(*o) || (gathers_ && o == &s_.inputs[0]));
    if (const DType t = compute_dtype(o->dtype); rlxc::bits(t) > rlxc::bits(widest)) widest = t;
  }
  const Expr n = s_.shape.back().in(k_);
  lanes_ = !vectors ? 1 : m_.workgroups ? aligned_lanes() : vector_for(m_, n, widest);
  m_ = mapping_of_rows(m_, product(k_, s_.shape, 0, s_.axis), n, lanes_);
}

// Returns the lanes of aligned accesses along a row: of 16 bytes of the narrowest operand, and of kMostLoads accesses of the
// widest one, at most.
int RowBuilder::aligned_lanes() const {
  int64_t length = 0;
  if (gathers_ || is_short(m_, s_.shape.back().in(k_)) || !constant(s_.shape.back(), &length)) return 1;
  int narrowest = 8, widest = 1;
  for (const Operand* o : operands_) {
    if (is_constant(o->strides.back(), 0)) continue;
    narrowest = std::min(narrowest, static_cast<int>(rlxc::bits(o->dtype)) / 8);
    widest = std::max(widest, static_cast<int>(rlxc::bits(o->dtype)) / 8);
  }
  int64_t lanes = std::min(m_.load_lanes(narrowest), kMostLoads * m_.load_lanes(widest));
  for (const Operand* o : operands_) {
    if (std::ranges::any_of(o->factors, [](const auto& f) { return !f.empty(); })) return 1;
    if (!is_constant(o->strides.back(), 0)) lanes = contiguous_lanes(*o, o->strides.size() - 1, s_.shape.back().in(k_), lanes);
  }
  return static_cast<int>(lanes);
}

void RowBuilder::each_row(const std::function<void(Thread)>& body) {
  per_row(b_, m_, product(k_, s_.shape, 0, s_.axis), size(), rlxc::bits(s_.compute) / 8, [&](Expr row, Thread thread) {
    start_row(row);
    body(thread);
  });
}

void RowBuilder::each_rows(int64_t most, const std::function<void(Expr, Expr)>& body) {
  const Expr rows = product(k_, s_.shape, 0, s_.axis);
  per_row(b_, m_, ceil_div(rows, most), size() * most, rlxc::bits(s_.compute) / 8, [&](Expr group, Thread) {
    const Expr begin = b_.let("begin", group * most);
    int64_t constant_rows = 0;
    const bool whole = constant(rows, &constant_rows) && constant_rows % most == 0;
    body(begin, whole ? b_.i64(most) : b_.let("count", min(rows - begin, b_.i64(most))));
  });
}

void RowBuilder::start_row(Expr row) {
  const Dims outer(s_.shape.begin(), s_.shape.begin() + static_cast<std::ptrdiff_t>(s_.axis));
  std::vector<Expr> at = split_index(row, outer);
  for (Expr& e : at) e = b_.let("i", e);
  bases_.clear();
  for (const Operand* o : operands_) bases_.push_back(b_.let("base", element_at(k_, *o, at)));
}

void RowBuilder::walk(Thread thread, int slots, const std::function<void(const Place&, int)>& body,
                      const std::optional<Index>& last) {
  std::vector<Expr> at;
  const std::function<void(size_t)> nest = [&](size_t d) {
    if (d + 1 < s_.shape.size()) {
      b_.loop("c", s_.shape[d], [&](Expr i) {
        at.push_back(i);
        nest(d + 1);
        at.pop_back();
      });
      return;
    }
    across(b_, last.value_or(s_.shape[d]).in(k_), lanes_, thread, m_.workgroup_size, slots, [&](Expr i, int lanes, int slot) {
      Place p{at, lanes};
      p.at.push_back(i);
      body(p, slot);
    });
  };
  nest(s_.axis);
}

Expr RowBuilder::address(size_t operand, const Place& p) const {
  Expr a = bases_[operand];
  for (size_t d = 0; d < p.at.size(); ++d) a = a + p.at[d] * operands_[operand]->strides[s_.axis + d].in(k_);
  return a;
}

LoadInput RowBuilder::loader(const Place& p) {
  return [this, &p, seen = std::vector<Expr>(s_.inputs.size())](size_t i) mutable {
    const Operand& o = s_.inputs[i];
    if (!seen[i].kernel)
      seen[i] = b_.let(o.name + "_v",
                       cast_to(bufs_[i].load(address(i, p), same(o.strides.back(), 0) ? 1 : p.lanes), compute_dtype(o.dtype)));
    return seen[i];
  };
}

void RowBuilder::store(size_t output, const Place& p, Expr v) {
  const size_t i = s_.inputs.size() + output;
  bufs_[i].store(address(i, p), broadcast(cast_to(v, operands_[i]->dtype), p.lanes));
}

}  // namespace rlxc::kernel
