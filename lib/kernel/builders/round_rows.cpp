#include "kernel/builders/round_rows.h"

#include <bit>

#include "kernel/builders/dot_unit.h"
#include "kernel/builders/reduce.h"

namespace rlxc::kernel {
namespace {

constexpr double kMostCode = 127;
// Bits of an f32: all but its sign, infinity, a NaN, a step of its exponent.
constexpr int64_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000, kNan = 0x7FC00000, kDouble = 1 << 23;
constexpr int32_t kShift = 0x4B400000;  // bits of 1.5 * 2^23: added to a small whole number, it leaves that in the lowest bits
// Split rows are fixed-point numbers. The power of a block is the largest power of two that is at most its largest magnitude. The
// unit of its numbers is that power times 2^-kFraction.
constexpr int kFraction = 30;
constexpr int64_t kLeastPower = 64 * kDouble;                            // the least power of a block
constexpr int64_t kInversePower = (2 * 127 + kFraction - 64) * kDouble;  // the inverse of a unit of the least power
constexpr int64_t kHeadroom = kDouble / 64;                              // carries 127/128 of a power into the next one
constexpr int64_t kSmall = 1 << (kFraction - 9);                         // numbers below it are accurate with all digits only
constexpr int64_t kLargePerSmall = 4;                                    // so many others make up for one of them

// Converts a whole number below 2^22. A cast takes several instructions on CPUs: it also handles NaN and large numbers.
Expr integer_of(Expr whole, const Mapping& m) {
  if (m.workgroups) return cast_to(whole, DType::I32);
  return bitcast_to(whole + std::bit_cast<float>(kShift), DType::I32) - kShift;
}

Buf integers(Builder& b, const char* name, int lanes) {
  return b.variable(name, broadcast(constant_int(b.kernel(), DType::I32, 0), lanes));
}

// The bits of a magnitude. Magnitudes are ordered as their bits are, those of NaN last.
Expr magnitude(Expr v) { return bitcast_to(v, Type(DType::I32, v.lanes())) & kMagnitude; }

class RoundRows {
 public:
  RoundRows(Builder& b, const RoundRowsSpec& s, const Mapping& m)
      : b_(b), s_(s), m_(m), k_(s.k.in(b.kernel())), block_(s.block ? b.i64(s.block) : k_) {
    x_ = b.input(s.x.name, s.x.dtype, s.x.extent);
    const auto result = [&](const Operand& o) { return b.output(o.name, o.dtype, o.extent); };
    values_ = result(s.values);
    if (s.scale) scales_ = result(*s.scale);
    if (s.sums) sums_ = result(*s.sums);
    if (s.fine) fine_ = result(*s.fine);
    lanes_ = m.workgroups || !is_constant(s.x.strides.back(), 1) ? 1 : m.vector_lanes(4);
    while (!is_multiple(block_, lanes_)) lanes_ /= 2;
    if (!s.fine) team_ = rounding_team(m, block_ / lanes_);
  }

  void run() {
    blocks_ = s_.block ? k_ / s_.block : b_.i64(1);
    int64_t bytes = 256;
    constant(block_, &bytes);
    const Expr rows = product(b_.kernel(), s_.rows), entries = rows * blocks_;
    const Expr count = s_.where_it_pays ? select(splits_rows_of(rows, m_), entries, 0) : entries;
    if (team_ == 1) {
      for_each(b_, m_, "entry", count, 5 * bytes, [&](Expr entry) {
        set_entry(entry);
        s_.fine ? split() : rounded(b_.i64(0), {});
      });
      return;
    }
    const int64_t threads = m_.workgroup_size, teams = threads / team_;
    for_each_workgroup(b_, m_, "group", ceil_div(count, teams), threads, [&](Expr group, Expr thread) {
      const Expr entry = b_.let("entry", group * teams + thread / int64_t{team_});
      const bool whole = is_multiple(count, teams);
      set_entry(whole ? entry : b_.let("own", min(entry, count - 1)));
      rounded(thread % int64_t{team_}, whole ? std::optional<Expr>() : entry < count);
    });
  }

 private:
  void set_entry(Expr entry) {
    entry_ = entry;
    row_ = b_.let("row", entry / blocks_);
    first_ = b_.let("first", entry % blocks_ * block_);
    std::vector<Expr> index = split_index(row_, s_.rows);
    index.push_back(first_);
    from_ = b_.let("from", element_at(b_.kernel(), s_.x, index));
  }

  Expr vector(Expr scalar) const { return broadcast(scalar, lanes_); }
  Expr integer(int64_t v) const { return constant_int(b_.kernel(), DType::I32, v); }
  Buf counter(const char* name) { return integers(b_, name, lanes_); }

  Expr load(Expr j) const { return cast_to(x_.load(from_ + j * s_.x.strides.back().in(b_.kernel()), lanes_), DType::F32); }

  void each_vector(const std::function<void(Expr j)>& body) {
    b_.loop("j", block_ / lanes_, [&](Expr j) { body(j * lanes_); });
  }

  // Stores nothing where the condition is false.
  void rounded(Expr member, std::optional<Expr> condition) {
    const Expr to = b_.let("to", row_ * k_ + first_);
    const auto guarded = [&](const std::function<void()>& body) { condition ? b_.when(*condition, body) : body(); };
    const RoundedBlock block =
        round_block(b_, m_,
                    {block_ / lanes_, member, lanes_, team_, [&](Expr v) { return load(v * lanes_); },
                     [&](Expr v, Expr values, Expr scale) {
                       guarded([&] {
                         values_.store(to + v * lanes_, s_.scale ? cast_to(values, DType::I8)
                                                                 : cast_to(cast_to(values, DType::F32) * scale, s_.values.dtype));
                       });
                     },
                     s_.sums.has_value()});
    if (team_ > 1) condition = condition ? *condition && member == 0 : member == 0;
    if (!s_.scale && !s_.sums) return;
    guarded([&] {
      if (s_.scale) scales_.store(entry_, block.scale);
      if (s_.sums) sums_.store(entry_, block.sum);
    });
  }

  void split() {
    const Buf most = counter("most");
    each_vector([&](Expr j) { most.set(max(most.get(), magnitude(load(j)))); });
    const Expr largest = b_.let("largest", reduce_max(most.get())), finite = b_.let("finite", largest < kInfinity);
    // The headroom keeps the first digit below 128.
    const Expr power = b_.let("power", max((largest + kHeadroom) & kInfinity, kLeastPower));
    const Expr inverse = b_.let("inverse", bitcast_to(kInversePower - (power - kLeastPower), Type(DType::F32)));
    std::vector<Buf> sums;
    for (int i = 0; i < kRowDigits; ++i) sums.push_back(counter("sum"));
    const Buf balance = counter("balance");
    const Expr to = b_.let("to", row_ * kRowDigits * k_ + first_);
    each_vector([&](Expr j) {
      const Expr scaled = select(vector(finite), load(j) * inverse, vector(b_.f32(0)));
      const Expr value = b_.let("value", cast_to(round_even(scaled), DType::I32));
      const Expr others = select(value == 0, vector(integer(0)), vector(integer(1)));
      balance.set(balance.get() + select(abs(value) < kSmall, others * -kLargePerSmall, others));
      Expr rest = value;
      for (int i = kRowDigits - 1; i >= 0; --i) {
        const Expr digit = b_.let("digit", (rest << 24) >> 24);
        values_.store(to + j + i * k_, cast_to(digit, DType::I8));
        Buf& sum = sums[static_cast<size_t>(i)];
        sum.set(sum.get() + digit);
        if (i > 0) rest = b_.let("rest", (rest - digit) >> 8);
      }
    });
    const Expr scale = bitcast_to(select(finite, power - (kFraction - 8) * kDouble, kNan), Type(DType::F32));
    scales_.store(entry_, scale);
    fine_.store(entry_, cast_to(reduce_add(balance.get()) < 0, DType::I32));
    for (int i = 0; i < kRowDigits; ++i)
      sums_.store((row_ * kRowDigits + i) * blocks_ + entry_ % blocks_, reduce_add(sums[static_cast<size_t>(i)].get()));
  }

  Builder& b_;
  const RoundRowsSpec& s_;
  const Mapping& m_;
  Expr k_, block_, blocks_;
  Buf x_, values_, scales_, sums_, fine_;
  int lanes_ = 1, team_ = 1;
  Expr entry_, row_, first_, from_;
};

}  // namespace

int rounding_team(const Mapping& m, Expr vectors) {
  int team = 1;
  while (2 * team <= m.warp && is_multiple(vectors, 2 * team)) team *= 2;
  return team;
}

RoundedBlock round_block(Builder& b, const Mapping& m, const BlockRounding& r) {
  const auto each_vector = [&](const std::function<void(Expr)>& body) {
    b.loop("j", r.vectors / int64_t{r.team}, [&](Expr j) { body(r.team == 1 ? j : j * int64_t{r.team} + r.member); });
  };
  const Buf most = integers(b, "most", r.lanes), sum = r.adds ? integers(b, "sum", r.lanes) : Buf();
  each_vector([&](Expr v) { most.set(max(most.get(), magnitude(r.load(v)))); });
  const Expr largest = combine_shuffled(b, "largest", ExprOp::Max, b.let("largest", reduce_max(most.get())), r.team);
  const Expr scale = b.let("scale", bitcast_to(select(largest < kInfinity, largest, kNan), Type(DType::F32)) / kMostCode);
  const Expr inverse = b.let("inverse", select(scale != 0, 1 / scale, 0));
  each_vector([&](Expr v) {
    const Expr values = b.let("code", integer_of(round_even(r.load(v) * inverse), m));
    r.store(v, values, scale);
    if (r.adds) sum.set(sum.get() + values);
  });
  if (!r.adds) return {scale, {}};
  return {scale, combine_shuffled(b, "sum", ExprOp::Add, reduce_add(sum.get()), r.team)};
}

void build_round_rows(Builder& b, const RoundRowsSpec& s, const Mapping& m) { RoundRows(b, s, m).run(); }

}  // namespace rlxc::kernel
