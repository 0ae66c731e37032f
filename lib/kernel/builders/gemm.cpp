#include "kernel/builders/gemm.h"

#include <algorithm>

#include "kernel/builders/dot_words.h"
#include "kernel/builders/gemm_operands.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kLongColumn = 64;  // from this length on it pays to sum a few columns along k

// Whether rows of a and columns of b are contiguous.
bool runs_along_k(const GemmSpec& s) {
  return !s.b_at && !s.two_sums && s.a.strides.size() > 1 && s.b.strides.size() > 1 && is_constant(s.a.strides.back(), 1) &&
         is_constant(s.b.strides.end()[-2], 1);
}

// Computes the result by elements or vectors, for few rows or columns, which would underfill tiles.
class RowByRow {
 public:
  RowByRow(GemmOperands& o, const Mapping& m) : o_(o), b_(o.b), m_(m), lanes_(m.vector_lanes(rlxc::bits(o.spec.accumulate) / 8)) {
    const bool k_fits = !m.workgroups && runs_along_k(o.spec);
    along_n_ = !m.workgroups && !o.spec.b_at && o.b_vectors() && o.c_vectors() && !(k_fits && is_constant(o.n, 1));
    along_k_ = !along_n_ && k_fits;
    if (!along_n_ && !along_k_) lanes_ = 1;
    known_ = constant(along_n_ ? o.n : o.k, &length_);
    while (known_ && lanes_ > 1 && lanes_ > length_) lanes_ /= 2;
    // Lanes along k share a scale.
    while (along_k_ && o.spec.quantized && o.spec.quantized->block % lanes_ != 0) lanes_ /= 2;
    if (o.spec.dots) words_.emplace(o, m);
    if (int64_t n = 0; along_k_ && lanes_ > 1 && constant(o.n, &n) && n < kMostAcross)
      across_ = static_cast<int>(std::max<int64_t>(n, 1));
    if (along_n_ && known_ && lanes_ > 1)
      across_ = static_cast<int>(std::clamp<int64_t>(length_ / lanes_ / kPieces, 1, kMostAcross));
    const int sums = m.has_many_registers() ? 16 : 8;
    if (const bool few = along_k_ ? lanes_ > 1 && across_ > 1 : along_n_ && known_ && length_ < kFewColumns; few && !words_)
      rows_ = std::max(std::min(sums / across_, kMostRows), 1);
    if (int64_t rows = 0; o.spec.b_row || (constant(o.m, &rows) && rows < rows_)) rows_ = 1;
  }

  void run() {
    const int64_t width = int64_t{lanes_} * across_;
    const Expr groups = along_n_ ? ceil_div(o_.n, width) : o_.n / across_;
    int64_t k = 64;
    constant(o_.k, &k);
    const Expr blocks = rows_ > 1 ? ceil_div(o_.m, rows_) : o_.m;
    for_each(b_, m_, "work", o_.batches() * blocks * groups, rows_ * k * width, [&](Expr work) {
      // Rows with an index of their matrix (b_row) are consecutive, which lets equal indices hit the cache.
      const bool by_rows = o_.spec.b_row.has_value();
      const Expr batch = by_rows ? work % o_.batches() : work / (groups * blocks);
      const Expr group = by_rows ? work / o_.batches() % groups : work % groups;
      const Expr block = by_rows ? work / (o_.batches() * groups) : work / groups % blocks;
      const Expr row = b_.let("row", rows_ > 1 ? block * rows_ : block);
      const Expr column = b_.let("column", along_n_ ? group * width : group * across_);
      o_.batch = split_index(b_.let("batch", batch), o_.spec.batch);
      if (rows_ == 1 || is_multiple(o_.m, rows_)) return columns(row, column, rows_);
      b_.when(
          row + rows_ <= o_.m, [&] { columns(row, column, rows_); },
          [&] { b_.loop("r", o_.m - row, [&](Expr r) { columns(row + r, column, 1); }); });
    });
  }

 private:
  static constexpr int64_t kPieces = 8, kMostAcross = 8;  // least tasks per row; most vectors computed together
  static constexpr int64_t kFewColumns = 4;               // too few to hide the latency of an addition
  static constexpr int kMostRows = 8;                     // computed together

  // Computes `rows` rows of the columns of a task.
  void columns(Expr row, Expr column, int rows) {
    const int64_t width = int64_t{lanes_} * across_;
    if (along_k_ && lanes_ > 1) return dot(row, column, rows);
    if (!along_n_ || lanes_ == 1) return elements(row, column, 1, 1, rows);
    if (is_constant(o_.n % width, 0)) return elements(row, column, lanes_, across_, rows);
    b_.when(
        column + width <= o_.n, [&] { elements(row, column, lanes_, across_, rows); },
        [&] {
          const Expr vectors = (o_.n - column) / lanes_;
          if (across_ > 1) b_.loop("t", vectors, [&](Expr t) { elements(row, column + t * lanes_, lanes_, 1, rows); });
          const Expr first = across_ > 1 ? b_.let("first", column + vectors * lanes_) : column;
          b_.loop("t", o_.n - first, [&](Expr t) { elements(row, first + t, 1, 1, rows); });
        });
  }

  // Computes `count` vectors of result rows, whose loads from a row of b are contiguous.
  void elements(Expr row, Expr column, int lanes, int count, int rows) {
    if (words_) return by_words(row, column);
    const int halves = o_.spec.two_sums ? 2 : 1, all = count * halves;
    std::vector<Buf> sums;
    for (int i = 0; i < rows * all; ++i) sums.push_back(b_.variable("sum", o_.zero(lanes)));
    b_.loop("p", o_.k, [&](Expr p) {
      std::vector<Expr> of_b(static_cast<size_t>(all));
      for (int r = 0; r < rows; ++r) {
        const Expr a = b_.let("a", broadcast(o_.load_a(row + r, p), lanes));
        for (int i = 0; i < all; ++i) {
          const Expr from = column + int64_t{i % count} * lanes;
          Expr& y = of_b[static_cast<size_t>(i)];
          if (r == 0) y = o_.load_b(p, i < count ? from : from + o_.n, lanes);
          if (r == 0 && rows > 1) y = b_.let("b", y);
          Buf& sum = sums[static_cast<size_t>(r * all + i)];
          sum.set(o_.multiply_add(a, y, sum.get()));
        }
      }
    });
    for (int r = 0; r < rows; ++r)
      for (int i = 0; i < count; ++i) {
        const Buf* sum = &sums[static_cast<size_t>(r * all + i)];
        o_.write(row + r, column + int64_t{i} * lanes, sum->get(),
                 o_.spec.two_sums ? std::optional(sum[count].get()) : std::nullopt);
      }
  }

  // Computes an element on a dot unit.
  void by_words(Expr row, Expr column) {
    if (o_.spec.quantized) return by_blocks(row, column);
    const DotWords& w = *words_;
    const bool add_a = w.needs_rows() && !w.has_rows(), add_b = w.needs_columns() && !w.has_columns();
    std::vector<Expr> columns{column};
    if (o_.spec.two_sums) columns.push_back(b_.let("second", column + o_.n));
    std::vector<Buf> sums, of_columns;
    Buf of_row;
    for (size_t i = 0; i < columns.size(); ++i) sums.push_back(b_.variable("sum", w.zero()));
    if (add_a) of_row = b_.variable("row_sum", w.none());
    for (size_t i = 0; add_b && i < columns.size(); ++i) of_columns.push_back(b_.variable("column_sum", w.none()));
    const auto step = [&](Expr p, bool whole) {
      const Expr a = b_.let("a", w.word_of_a(row, p, whole));
      if (add_a) of_row.set(w.add_a(a, of_row.get()));
      for (size_t i = 0; i < columns.size(); ++i) {
        const Expr b = b_.let("b", w.word_of_b(p, columns[i], whole));
        sums[i].set(w.a_times_b(a, b, sums[i].get()));
        if (add_b) of_columns[i].set(w.add_b(b, of_columns[i].get()));
      }
    };
    w.each_word(step);
    const auto whole = [&](size_t i) {
      return w.without_zeros(
          sums[i].get(), row, columns[i], [&] { return add_a ? of_row.get() : w.sum_of_row(row); },
          [&] { return add_b ? of_columns[i].get() : w.sum_of_column(columns[i]); });
    };
    o_.write(row, column, whole(0), columns.size() > 1 ? std::optional(whole(1)) : std::nullopt);
  }

  // The same of rounded rows and a quantized b.
  void by_blocks(Expr row, Expr column) {
    const DotWords& w = *words_;
    std::vector<Buf> totals;
    for (int i = 0; i < (o_.spec.two_sums ? 2 : 1); ++i) totals.push_back(b_.variable("total", b_.f32(0)));
    b_.loop("block", w.steps / w.steps_of_block(), [&](Expr block) { w.multiply_block(row, column, block, totals); });
    o_.write(row, column, totals[0].get(), totals.size() > 1 ? std::optional(totals[1].get()) : std::nullopt);
  }

  // Computes `across` columns. Several accumulators for each hide the latency of an addition.
  void dot(Expr row, Expr column, int rows) {
    const int own = rows * across_, sums = known_ && length_ < 4 * lanes_ ? 1 : (3 + own) / own;
    const int64_t step = int64_t{sums} * lanes_;
    std::vector<Buf> sum;  // of rows, columns and steps
    for (int i = 0; i < own * sums; ++i) sum.push_back(b_.variable("sum", o_.zero(lanes_)));
    const auto sum_of = [&](int r, int c, int i) -> Buf& { return sum[static_cast<size_t>((r * across_ + c) * sums + i)]; };
    auto add = [&](int i, Expr p) {
      std::vector<Expr> of_b(static_cast<size_t>(across_));
      for (int r = 0; r < rows; ++r) {
        const Expr a = across_ > 1 ? b_.let("a", o_.load_a(row + r, p, lanes_)) : o_.load_a(row + r, p, lanes_);
        for (int c = 0; c < across_; ++c) {
          Expr& y = of_b[static_cast<size_t>(c)];
          if (r == 0) y = o_.load_b_along_k(p, column + c, lanes_);
          if (r == 0 && rows > 1) y = b_.let("b", y);
          sum_of(r, c, i).set(o_.multiply_add(a, y, sum_of(r, c, i).get()));
        }
      }
    };
    const Expr done = o_.k / step * step, vectors = o_.k / lanes_ * lanes_;
    b_.loop("p", o_.k / step, [&](Expr p) {
      for (int i = 0; i < sums; ++i) add(i, p * step + i * lanes_);
    });
    if (sums > 1) b_.loop("p", (vectors - done) / lanes_, [&](Expr p) { add(0, done + p * lanes_); });
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < across_; ++c) {
        Expr all = sum_of(r, c, 0).get();
        for (int i = 1; i < sums; ++i) all = all + sum_of(r, c, i).get();
        Buf rest = b_.variable("rest", reduce_add(all));
        b_.loop("p", o_.k - vectors, [&](Expr p) {
          rest.set(o_.multiply_add(o_.load_a(row + r, vectors + p), o_.load_b(vectors + p, column + c), rest.get()));
        });
        o_.write(row + r, column + c, rest.get());
      }
  }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  int lanes_, across_ = 1;  // elements of a vector; vectors of a row, or columns, computed together
  int rows_ = 1;            // rows computed together
  bool along_n_ = false, along_k_ = false, known_ = false;  // axis of the vectors; whether its length is constant
  int64_t length_ = 0;
  std::optional<DotWords> words_;
};

}  // namespace

bool gemm_has_few_columns(int64_t n, DType accumulate, const Mapping& m) {
  return !m.workgroups && n * 2 < m.vector_lanes(rlxc::bits(accumulate) / 8);
}

bool gemm_is_tiled(const GemmSpec& s, const Mapping& mapping) {
  int64_t m = 0, n = 0, k = 0;
  const bool known_m = constant(s.m, &m), known_n = constant(s.n, &n), known_k = constant(s.k, &k);
  if ((known_m && m == 0) || (known_n && n == 0) || (known_k && k == 0)) return false;
  if (known_n && known_k && k >= kLongColumn && runs_along_k(s) && gemm_has_few_columns(n, s.accumulate, mapping)) return false;
  return !(known_m && m < 3) && !(known_n && n < 4) && !(known_k && k < 4);
}

void build_gemm(Builder& b, const GemmSpec& s, const Mapping& m) {
  GemmOperands o(b, s);
  o.add_a();
  o.add_b();
  o.add_zeros();
  o.add_fused_and_c();
  if (s.dots && !m.workgroups) return s.quantized ? gemm_on_quantized_dots(o, m) : gemm_on_dots(o, m);
  if ((!s.packed || m.workgroups) && !gemm_is_tiled(s, m)) {
    if (!m.workgroups || !gemm_by_split_sums(o, m)) RowByRow(o, m).run();
    return;
  }
  if (!m.workgroups) return gemm_on_tiles(o, m);
  if (!gemm_on_matrix_units(o, m)) gemm_on_grid(o, m);
}

}  // namespace rlxc::kernel
