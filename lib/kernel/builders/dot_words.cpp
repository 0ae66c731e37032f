#include "kernel/builders/dot_words.h"

#include <algorithm>

namespace rlxc::kernel {
namespace {

constexpr int32_t kSignBits = static_cast<int32_t>(0x80808080);               // of four 8-bit values
constexpr int64_t kSignBitsOfTwo = static_cast<int64_t>(0x8080808080808080);  // of two such words
constexpr int32_t kOnes = 0x01010101;

// Returns whether words along axis `k` of the strides are contiguous. On a grid, they must be aligned, too.
bool reads_words(const Operand& o, size_t k, const Mapping& m, int group) {
  if (k >= o.strides.size() || !is_constant(o.strides[k], 1)) return false;
  if (!m.workgroups) return true;
  if (m.load_bytes < static_cast<int>(sizeof(int32_t)) || !is_multiple(o.offset, group)) return false;
  for (size_t i = 0; i < o.strides.size(); ++i)
    if (i != k && !is_multiple(o.strides[i], group)) return false;
  return true;
}

// Returns whether b is a matrix of values in memory, not words. `rows_packed`: also beside packed rows.
bool is_memory(const GemmSpec& s, bool rows_packed = false) {
  const bool plain = rows_packed || (!s.rows_packed && !s.fill);
  return plain && !s.quantized && !s.packed && !s.b_at && !s.b_row && s.b.dtype != DType::I32;
}

}  // namespace

DotWords::DotWords(GemmOperands& o, const Mapping& m)
    : unit(*o.spec.dots),
      floats(is_float(unit.accumulator)),
      beside(words_beside(m)),
      steps(ceil_div(o.k, unit.group)),
      padded(beside == 1 ? steps : ceil_div(steps, beside) * beside),
      in_rows(floats ? padded : padded + 1),
      columns(gemm_panel(m, unit.accumulator)),
      o_(o),
      quantizes_(m.workgroups && o.spec.prologue.body),
      words_of_memory_(copied() || (!quantizes_ && reads_words(o.spec.a, o.spec.a.strides.size() - 1, m, unit.group))),
      whole_words_of_b_(is_memory(o.spec) && reads_words(o.spec.b, o.spec.b.strides.size() - 2, m, unit.group) &&
                        is_multiple(o.k, unit.group)),
      whole_rows_of_b_(m.workgroups && unit.group == kWordCodes && is_memory(o.spec, true) && is_multiple(o.k, unit.group) &&
                       is_multiple(o.n, unit.group) && reads_words(o.spec.b, o.spec.b.strides.size() - 1, m, unit.group)) {
  if (!o.spec.quantized) return;
  block_ = o.spec.quantized->block;
  if (block_ == 0) constant(o.k, &block_);
}

Expr DotWords::code_of(Expr element) const {
  return cast_to(unit.a == DType::BF16 ? bitcast_to(element, Type(DType::U16, element.lanes())) : element, DType::I32);
}

Expr DotWords::code_of_b(Expr k, Expr column, int lanes) const {
  const bool whole = is_multiple(o_.k, unit.group);
  Expr code = code_of(o_.from_b.load(o_.where_b(whole ? k : min(k, o_.k - 1), column), lanes));
  if (o_.spec.b_shift) code = code + o_.spec.b_shift;
  return whole ? code : select(k < o_.k, code, none(lanes));
}

Expr DotWords::word(const std::function<Expr(int q)>& code) const {
  Expr all;
  for (int q = 0; q < unit.group; ++q) {
    const Expr bits = code(q) & mask();
    all = q == 0 ? bits : all | bits << width() * q;
  }
  return all;
}

Expr DotWords::word_of_a(Expr row, Expr p, bool whole) const {
  if (o_.spec.rows_packed) return o_.from_a.load(o_.where_a(row, p));
  if (o_.spec.rounds_rows) return o_.row_words.load(row * steps + p);
  const Expr k = p * unit.group;
  if (whole && words_of_memory_) {
    const Expr word = bitcast_to(o_.from_a.load(o_.where_a(row, k), unit.group), Type(DType::I32));
    return o_.spec.a_shift ? word ^ kSignBits : word;
  }
  Expr all = none();
  for (int q = 0; q < unit.group; ++q) {
    const Expr at = whole ? k + q : min(k + q, o_.k - 1);
    Expr element = o_.from_a.load(o_.where_a(row, at));
    if (quantizes_) element = o_.of_rows.values(o_.spec.prologue.body, {&element, 1}, {o_.b.i64(0)})[0];
    Expr code = code_of(element);
    if (o_.spec.a_shift) code = code + o_.spec.a_shift;
    if (unit.a == DType::I8) code = code & mask();
    all = all | (whole ? code : select(k + q < o_.k, code, none())) << width() * q;
  }
  return o_.b.let("word", all);
}

Expr DotWords::two_words_of_a(Expr row, Expr p) const {
  if (o_.spec.rows_packed) return bitcast_to(o_.from_a.load(o_.where_a(row, p), 2), Type(DType::I64));
  const Expr words = bitcast_to(o_.from_a.load(o_.where_a(row, p * unit.group), 2 * unit.group), Type(DType::I64));
  return o_.spec.a_shift ? words ^ kSignBitsOfTwo : words;
}

bool DotWords::reads_along_k() const {
  const bool columns = o_.spec.packed ? !o_.spec.quantized && beside > 1 : reads_runs_of_b() || reads_rows_of_b();
  return columns && most_words_of_a(kWordsOfRead) == kWordsOfRead;
}

bool DotWords::reads_runs_of_b() const {
  return o_.spec.b_at && o_.spec.b.dtype == DType::I32 && o_.spec.b_run % kWordsOfRead == 0;
}

Expr DotWords::panel_of(Expr column) const {
  const int64_t own = o_.spec.two_sums ? columns / 2 : columns;
  const Expr panel = (o_.spec.two_sums ? column % o_.n : column) / own;
  return (o_.base_b() * ceil_div(o_.n, own) + panel) * (in_rows * columns);
}

Expr DotWords::in_panel(Expr column) const {
  const int64_t own = columns / 2;
  return o_.spec.two_sums ? column / o_.n * own + column % o_.n % own : column % columns;
}

Expr DotWords::in_own_panel(Expr p, Expr j) const {
  return beside == 1 ? p * columns + j : p / beside * (beside * columns) + j * beside + p % beside;
}

// Returns a word of the result of build_pack_codes: a field of `bits` bits in each byte.
Expr DotWords::quantized_word(Expr p, Expr column) const {
  const int bits = o_.spec.quantized->bits, fields = 8 / bits;
  const int64_t own = o_.spec.two_sums ? columns / 2 : columns;
  const Expr half = o_.spec.two_sums ? column / o_.n : o_.b.i64(0), in_half = o_.spec.two_sums ? column % o_.n : column;
  const Expr at = in_half / own * (o_.k / (unit.group * fields) * columns) + p / fields * columns + half * own + in_half % own;
  const Expr word = o_.from_b.load(at);
  if (fields == 1) return word ^ kSignBits;
  return word >> cast_to(p % fields * bits, DType::I32) & ((1 << bits) - 1) * kOnes;
}

Expr DotWords::add_block(Expr sum, Expr row, Expr column, Expr block, Expr total) const {
  const Quantized& c = *o_.spec.quantized;
  const Expr k = block * block_, of_row = o_.sum_of_row(row, block);
  const Expr zero = o_.zero_point_of_b(k, column, DType::I32) + (c.sign - (c.bits == 8 ? kSignFlip : 0));
  const Expr scale = o_.scale_of_b(k, column) * o_.scale_of_row(row, block);
  return fma(cast_to(sum - zero * of_row, DType::F32), scale, total);
}

void DotWords::multiply_block(Expr row, Expr column, Expr block, const std::vector<Buf>& totals) const {
  Builder& b = o_.b;
  const int64_t steps = steps_of_block();
  std::vector<Buf> sums;
  for (size_t i = 0; i < totals.size(); ++i) sums.push_back(b.variable("sum", none()));
  b.loop("p", steps, [&](Expr p) {
    const Expr at = b.let("at", block * steps + p), a = b.let("a", word_of_a(row, at, true));
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i].set(a_times_b(a, word_of_b(at, column + static_cast<int64_t>(i) * o_.n, true), sums[i].get()));
  });
  for (size_t i = 0; i < sums.size(); ++i)
    totals[i].set(add_block(sums[i].get(), row, column + static_cast<int64_t>(i) * o_.n, block, totals[i].get()));
}

// Returns a value of type t that is 0 once `shift` was added to it.
static int64_t zero_before(int shift, DType t) { return shift == 0 ? 0 : t == DType::U8 ? kSignFlip : -kSignFlip; }

Expr DotWords::words_of_columns(Expr p, Expr column, Expr condition) const {
  const DType t = o_.spec.b.dtype;
  const Expr none = broadcast(constant_int(o_.b.kernel(), t, zero_before(o_.spec.b_shift, t)), unit.group);
  std::vector<Expr> rows;
  for (int q = 0; q < unit.group; ++q) {
    const Expr row = o_.from_b.load_if(condition, o_.where_b(p * unit.group + q, column), none, unit.group);
    rows.push_back(o_.b.let("row", bitcast_to(row, Type(DType::I32))));
    if (o_.spec.b_shift) rows.back() = rows.back() ^ kSignBits;
  }
  const Buf words = o_.b.registers("words", DType::I32, unit.group);
  for (int j = 0; j < unit.group; ++j) words.store(j, word([&](int q) { return rows[static_cast<size_t>(q)] >> width() * j; }));
  return words.load(0, unit.group);
}

Expr DotWords::words_of_a(Expr row, Expr p, int words, Expr condition) const {
  if (o_.spec.rows_packed) return o_.from_a.load_if(condition, o_.where_a(row, p), none(words), words);
  const DType t = o_.spec.a.dtype;
  const Expr none = broadcast(constant_int(o_.b.kernel(), t, zero_before(o_.spec.a_shift, t)), words * unit.group);
  const Expr all = bitcast_to(o_.from_a.load_if(condition, o_.where_a(row, p * unit.group), none, words * unit.group),
                              Type(DType::I32, words));
  return o_.spec.a_shift ? all ^ broadcast(constant_int(o_.b.kernel(), DType::I32, kSignBits), words) : all;
}

int DotWords::most_words_of_a(int most) const {
  const GemmSpec& s = o_.spec;
  if (!s.rows_packed && !words_of_memory_) return 1;
  const auto fits = [&](int words) {
    const int elements = s.rows_packed ? words : words * unit.group;
    return is_multiple(o_.k, words * unit.group) && is_multiple(s.a.offset, elements) &&
           std::ranges::all_of(std::span(s.a.strides).first(s.a.strides.size() - 1),
                               [&](const Index& step) { return is_multiple(step, elements); });
  };
  while (most > 1 && !fits(most)) most /= 2;
  return most;
}

Expr DotWords::word_of_b(Expr p, Expr column, bool whole) const {
  if (o_.spec.quantized) return quantized_word(p, column);
  if (o_.spec.packed) return o_.from_b.load(in_panel(p, column));
  if (o_.spec.b.dtype == DType::I32) return o_.from_b.load(o_.where_b(p, column));
  if (whole_words_of_b_) return words_of_b(p, column, 1);
  return word([&](int q) {
    const Expr k = p * unit.group + q;
    Expr code = code_of(o_.from_b.load(o_.where_b(whole ? k : min(k, o_.k - 1), column)));
    if (o_.spec.b_shift) code = code + o_.spec.b_shift;
    return whole ? code : select(k < o_.k, code, none());
  });
}

Expr DotWords::words_of_b(Expr p, Expr column, int words) const {
  const Expr all = bitcast_to(o_.from_b.load(o_.where_b(p * unit.group, column), words * unit.group), Type(DType::I32, words));
  return o_.spec.b_shift ? all ^ broadcast(constant_int(o_.b.kernel(), DType::I32, kSignBits), words) : all;
}

void DotWords::each_word(const std::function<void(Expr p, bool whole)>& body, Index first) const {
  const Expr from = first.in(o_.b.kernel()), count = whole_words() - from;
  if (!is_constant(count, 0)) o_.b.loop("p", count, [&](Expr p) { body(from + p, true); });
  if (copied() || is_multiple(o_.k, unit.group)) return;  // copied with what fills the last word
  const auto last = [&] { body(steps - 1, false); };
  int64_t k = 0;
  if (constant(o_.k, &k)) last();
  else o_.b.when(o_.k % unit.group != 0, last);
}

Expr DotWords::a_times_b(Expr a, Expr b, Expr sum) const {
  const bool left = o_.spec.rows_packed;
  const Expr x = bitcast_to(a, values(left ? unit.b : unit.a, a.lanes())),
             y = bitcast_to(b, values(left ? unit.a : unit.b, b.lanes()));
  return left ? dot(y, x, sum) : dot(x, y, sum);
}

Expr DotWords::ones(DType t) const { return bitcast_to(constant_int(o_.b.kernel(), DType::I32, kOnes), values(t, 1)); }

Expr DotWords::add_a(Expr a, Expr sum) const { return dot(bitcast_to(a, values(unit.a, 1)), ones(unit.b), sum); }

Expr DotWords::add_b(Expr b, Expr sum) const {
  if (o_.spec.rows_packed) return dot(bitcast_to(b, values(unit.a, 1)), ones(unit.b), sum);
  return dot(ones(unit.a), bitcast_to(b, values(unit.b, 1)), sum);
}

std::optional<Expr> DotWords::shifted(std::optional<Expr> zero, int by) const {
  if (by == 0) return zero;
  return zero ? *zero + broadcast(o_.b.value(DType::I32, by), zero->lanes()) : o_.b.value(DType::I32, by);
}

int64_t DotWords::zeros_of_pairs() const {
  const Operand& zero = *o_.spec.b_zero;
  return is_constant(zero.strides.back(), 0) ? 2 : contiguous_lanes(zero, zero.strides.size() - 1, o_.n, 2);
}

Expr DotWords::without_zeros(Expr sum, Expr row, Expr column, const std::function<Expr()>& of_row,
                             const std::function<Expr()>& of_column) const {
  const int lanes = sum.lanes();
  const auto a_zero = shifted(o_.zero_of_a(row), o_.spec.a_shift);
  const auto b_zero = shifted(o_.zero_of_b(column, lanes), o_.spec.b_shift);
  if (a_zero) sum = sum - broadcast(*a_zero, lanes) * of_column();
  if (b_zero) {
    Expr total = of_row();
    if (a_zero) total = total - cast_to(o_.k, DType::I32) * *a_zero;
    sum = sum - (b_zero->lanes() == lanes ? *b_zero * broadcast(total, lanes) : broadcast(*b_zero * total, lanes));
  }
  return sum;
}

TileTotals::TileTotals(Builder& b, const char* name, int64_t size, Expr thread, int64_t threads)
    : b_(b), size_(size), threads_(threads), thread_(thread), totals_(b.shared(name, DType::I32, size)) {
  each([&](Expr i) { totals_.store(i, b_.value(DType::I32, 0)); });
}

void TileTotals::each(const std::function<void(Expr)>& body) {
  b_.loop("e", (size_ + threads_ - 1) / threads_, [&](Expr e) {
    const Expr i = b_.let("i", e * threads_ + thread_);
    b_.when(i < size_, [&] { body(i); });
  });
}

void TileTotals::add(int64_t steps, const std::function<Expr(Expr p, Expr i)>& word,
                     const std::function<Expr(Expr word, Expr sum)>& add) {
  each([&](Expr i) {
    Buf total = b_.variable("total", totals_.load(i));
    b_.loop("p", steps, [&](Expr p) { total.set(add(word(p, i), total.get())); });
    totals_.store(i, total.get());
  });
}

}  // namespace rlxc::kernel
