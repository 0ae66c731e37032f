// The operands of a matmul on a dot unit, as words of `group` values along k. Zero points are subtracted from the sums:
//   sum (a - za) * (b - zb) = sum a * b - za * sum b - zb * (sum a - k * za)
// Integer sums wrap: the result is exact whenever that of a plain loop is.
#pragma once
#include "kernel/builders/dot_unit.h"
#include "kernel/builders/gemm_operands.h"

namespace rlxc::kernel {

class DotWords {
 public:
  DotWords(GemmOperands&, const Mapping&);  // the spec has a unit

  // Returns an element of b as the unit reads it, or its bits; 0 beyond k.
  Expr code_of_b(Expr k, Expr column, int lanes) const;
  Expr word_of_a(Expr row, Expr p, bool whole) const;  // values p * group .. of a row; 0 beyond k. whole: none is beyond k
  Expr word_of_b(Expr p, Expr column, bool whole) const;
  bool reads_words_of_b() const { return whole_words_of_b_; }  // whether columns of an unpacked b are whole words
  Expr words_of_b(Expr p, Expr column, int words) const;       // of such a column
  // Several words of a row at once, 0 where the condition is false; and how many an access can read.
  Expr words_of_a(Expr row, Expr p, int words, Expr condition) const;
  int most_words_of_a(int most) const;
  // Neighbours in a panel: of a row or, if `beside` > 1, of a column.
  Expr words_of_panel(Expr p, Expr column, int words, Expr condition) const {
    return o_.from_b.load_if(condition, in_panel(p, column), none(words), words);
  }
  // Words of `unit.group` neighbouring columns of a b of bytes whose rows are contiguous and whole words on a grid, 0 where the
  // condition is false; and whether b is such.
  Expr words_of_columns(Expr p, Expr column, Expr condition) const;
  bool reads_rows_of_b() const { return whole_rows_of_b_; }
  // Several words of a column of a computed b. reads_runs_of_b: whether b has runs of words (GemmSpec::b_run).
  Expr words_of_run(Expr p, Expr column, int words, Expr condition) const {
    return o_.from_b.load_if(condition, o_.where_b(p, column), none(words), words);
  }
  bool reads_runs_of_b() const;
  // Whether vectors of kWordsOfRead along k can be made of rows of a and of columns of b.
  static constexpr int kWordsOfRead = 4;
  bool reads_along_k() const;
  Expr in_own_panel(Expr p, Expr j) const;                  // place of word p of column j of a panel
  Expr word(const std::function<Expr(int q)>& code) const;  // `group` codes
  // Calls body for each word of a row from p = first on.
  void each_word(const std::function<void(Expr p, bool whole)>& body, Index first = 0) const;
  Expr whole_words() const { return copied() ? steps : o_.k / unit.group; }  // of a row
  bool reads_words_of_a() const { return words_of_memory_ || o_.spec.rows_packed; }
  Expr two_words_of_a(Expr row, Expr p) const;     // as an i64; if reads_words_of_a()
  Expr a_times_b(Expr a, Expr b, Expr sum) const;  // adds the products of words, or of vectors of words
  Expr add_a(Expr a, Expr sum) const;              // adds the values of a word
  Expr add_b(Expr b, Expr sum) const;

  // Whether zero points need the sum of a row of a, or of a column of b, and whether packed operands include it.
  bool needs_rows() const { return o_.spec.b_zero || o_.spec.b_shift; }
  bool needs_columns() const { return o_.spec.a_zero || o_.spec.a_shift; }
  bool has_rows() const { return o_.spec.rows_packed; }
  bool has_columns() const { return o_.spec.packed; }
  Expr sum_of_row(Expr row) const { return o_.from_a.load(o_.where_a(row, steps)); }  // of packed operands
  Expr sum_of_column(Expr column, int lanes = 1) const {
    return o_.from_b.load(panel_of(column) + padded * columns + in_panel(column), lanes);
  }
  // Whether zero points can be applied to pairs of neighbouring sums of a row, from an even column on.
  bool writes_pairs() const { return !o_.spec.b_zero || zeros_of_pairs() > 1; }
  // Applies zero points to sums of products, neighbours of a row. `of_row` and `of_column` return sums of operands.
  Expr without_zeros(Expr sum, Expr row, Expr column, const std::function<Expr()>& of_row,
                     const std::function<Expr()>& of_column) const;

  // Scales the sum of products of one block of k, applies its zero point, and adds it to `total`. For rounded rows and a
  // quantized b.
  Expr add_block(Expr sum, Expr row, Expr column, Expr block, Expr total) const;
  // Adds the products of a block of a row and a column, and of column n + column if there are two totals.
  void multiply_block(Expr row, Expr column, Expr block, const std::vector<Buf>& totals) const;
  int64_t steps_of_block() const { return block_ / unit.group; }

  Expr none(int lanes = 1) const { return broadcast(constant_int(o_.b.kernel(), DType::I32, 0), lanes); }
  Expr zero() const { return constant_int(o_.b.kernel(), unit.accumulator, 0); }  // a sum

  const DotUnit& unit;
  const bool floats;                  // without zero points and sums of operands
  const int64_t beside;               // words of a column that are neighbours in a panel of b
  const Expr steps, padded, in_rows;  // words of a row of a; of a column of a panel; and with its sum
  const int64_t columns;              // of a panel

 private:
  int width() const { return 32 / unit.group; }
  int mask() const { return (1 << width()) - 1; }
  Type values(DType t, int words) const { return {t, words * unit.group}; }
  Expr code_of(Expr element) const;
  Expr ones(DType) const;
  Expr panel_of(Expr column) const;  // the place of its panel; in_panel: its number there. A panel has columns of both halves
  Expr in_panel(Expr column) const;
  Expr in_panel(Expr p, Expr column) const { return panel_of(column) + in_own_panel(p, in_panel(column)); }
  Expr quantized_word(Expr p, Expr column) const;
  int64_t zeros_of_pairs() const;
  std::optional<Expr> shifted(std::optional<Expr> zero, int by) const;

  bool copied() const { return o_.spec.copied_rows && !quantizes_; }

  GemmOperands& o_;
  const bool quantizes_;         // rows of a are floats that a grid quantizes where it reads them
  const bool words_of_memory_;   // rows of a are read as words
  const bool whole_words_of_b_;  // columns of b are, and k is a multiple of them
  const bool whole_rows_of_b_;
  int64_t block_ = 0;  // group size of a quantized b, which is packed
};

// The sums of the rows or columns of a tile of words in shared memory, each computed by one thread of the workgroup.
class TileTotals {
 public:
  TileTotals(Builder& b, const char* name, int64_t size, Expr thread, int64_t threads);  // sets them to 0
  // Adds a slice of the tile. A barrier follows before `of`.
  void add(int64_t steps, const std::function<Expr(Expr p, Expr i)>& word, const std::function<Expr(Expr word, Expr sum)>& add);
  Expr of(Expr i, int lanes = 1) const { return totals_.load(i, lanes); }

 private:
  void each(const std::function<void(Expr)>& body);

  Builder& b_;
  const int64_t size_, threads_;
  Expr thread_;
  Buf totals_;
};

}  // namespace rlxc::kernel
