// A matmul on a grid. A workgroup computes a square tile of the result, a thread some of its rows and columns in registers.
// Slices of a and b are converted once and go through shared memory, laid out for accesses of neighbours by neighbouring threads.
// On a dot unit, a step of k is a word.
#include <algorithm>

#include "kernel/builders/dot_words.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kSlice = 16;      // most steps of k in shared memory
constexpr int64_t kNeighbours = 4;  // neighbouring rows or columns of a thread, which it reads at once

class GridTiles {
 public:
  GridTiles(GemmOperands& o, const Mapping& m) : o_(o), b_(o.b), m_(m) {
    if (o.spec.dots) words_.emplace(o, m);
    steps_ = words_ ? words_->steps : o.k;
    if (blocks())
      while (words_->steps_of_block() % slice_ != 0) --slice_;
    while ((2 * side_) * (2 * side_) <= std::min<int64_t>(m.workgroup_size, 256)) side_ *= 2;
    // Larger tiles read less memory; smaller ones increase occupancy.
    int64_t rows = 0, columns = 0;
    const bool known_rows = constant(o.m, &rows), known_columns = constant(o.n, &columns);
    int64_t each = known_rows && known_columns && rows >= 512 && columns >= 512 ? 8 : 4;
    while (each > 1 && 2 * kSlice * side_ * each * (rlxc::bits(o.spec.accumulate) / 8) > m.shared_bytes) each /= 2;
    rows_ = known_rows ? std::min(each, (rows + side_ - 1) / side_) : each;
    columns_ = known_columns ? std::min(each, (columns + side_ - 1) / side_) : each;
    // With `pair`, a thread has as many columns of each half.
    own_ = o.spec.pair ? std::max<int64_t>(1, std::min(each / 2, columns_)) : columns_;
    if (o.spec.pair) columns_ = 2 * own_;
    if (rows_ % kNeighbours == 0 && m.load_lanes(4) >= kNeighbours) beside_rows_ = kNeighbours;
    if (own_ % kNeighbours == 0 && m.load_lanes(4) >= kNeighbours) beside_columns_ = kNeighbours;
  }

  void run() {
    const Expr columns = ceil_div(o_.n, own_ * side_), rows = ceil_div(o_.m, rows_ * side_);
    for_each_workgroup(b_, m_, "tile", o_.batches() * rows * columns, side_ * side_, [&](Expr tile, Expr thread) {
      o_.batch = split_index(b_.let("batch", tile / (rows * columns)), o_.spec.batch);
      row0_ = b_.let("row0", tile / columns % rows * (rows_ * side_));
      column0_ = b_.let("column0", tile % columns * (own_ * side_));
      const Expr beside = thread % side_, apart = thread / side_;  // threads that are neighbours write neighbours
      thread_ = thread;
      x_ = b_.let("x", o_.c_down() ? apart : beside);
      y_ = b_.let("y", o_.c_down() ? beside : apart);
      body();
    });
  }

 private:
  // Fills a slice: element (p, i) goes to p * size + i. Neighbouring threads read along the contiguous axis.
  void fetch(const Buf& to, int64_t size, bool along_k, const std::function<void(Expr p, Expr i, Buf& v)>& load) {
    const int64_t threads = side_ * side_;
    b_.loop("e", (slice_ * size + threads - 1) / threads, [&](Expr e) {
      const Expr i = b_.let("i", e * threads + thread_);
      const Expr p = b_.let("p", along_k ? i % slice_ : i / size), j = b_.let("j", along_k ? i / slice_ : i % size);
      auto one = [&] {
        Buf v = b_.variable("v", constant_int(b_.kernel(), to.type().dtype, 0));
        load(p, j, v);
        to.store(p * size + j, v.get());
      };
      slice_* size % threads == 0 ? one() : b_.when(i < slice_ * size, one);
    });
  }

  // Returns the row of a thread's sums i, and the column of its sums j in the tile of b, whose halves follow one another.
  Expr row_at(int64_t i) const { return y_ * beside_rows_ + (i / beside_rows_ * side_ * beside_rows_ + i % beside_rows_); }
  Expr column_at(int64_t j) const {
    const int64_t in_half = j % own_, first = in_half / beside_columns_ * side_ * beside_columns_ + in_half % beside_columns_;
    return x_ * beside_columns_ + (j / own_ * own_ * side_ + first);
  }
  // Returns the elements of a row of a slice that a thread multiplies.
  static std::vector<Expr> elements(const Buf& slice, Expr row, int64_t count, int64_t beside,
                                    const std::function<Expr(int64_t)>& at) {
    std::vector<Expr> all;
    for (int64_t i = 0; i < count; i += beside) {
      const Expr v = slice.load(row + at(i), static_cast<int>(beside));
      for (int l = 0; l < beside; ++l) all.push_back(beside == 1 ? v : rlxc::kernel::lane(v, l));
    }
    return all;
  }

  bool whole_words() const { return is_multiple(o_.k, words_->unit.group); }
  Expr load_a(Expr row, Expr p) const { return words_ ? words_->word_of_a(row, p, whole_words()) : o_.load_a(row, p); }
  Expr load_b(Expr p, Expr column) const { return words_ ? words_->word_of_b(p, column, whole_words()) : o_.load_b(p, column); }
  Expr multiply_add(Expr x, Expr y, Expr sum) const { return words_ ? words_->a_times_b(x, y, sum) : o_.multiply_add(x, y, sum); }

  void body() {
    const DType t = words_ ? DType::I32 : o_.spec.accumulate;
    const int64_t height = rows_ * side_, width = columns_ * side_;
    Buf a = b_.shared("tile_a", t, slice_ * height), b = b_.shared("tile_b", t, slice_ * width);
    if (words_ && words_->needs_rows() && !words_->has_rows()) of_rows_.emplace(b_, "row_sums", height, thread_, side_ * side_);
    if (words_ && words_->needs_columns() && !words_->has_columns())
      of_columns_.emplace(b_, "column_sums", width, thread_, side_ * side_);
    std::vector<Buf> sums, of_blocks;
    for (int64_t i = 0; i < rows_ * columns_; ++i) sums.push_back(b_.variable("sum", constant_int(b_.kernel(), t, 0)));
    for (int64_t i = 0; blocks() && i < rows_ * columns_; ++i) of_blocks.push_back(b_.variable("total", b_.f32(0)));
    const bool a_along_k = is_constant(o_.spec.a.strides.back(), 1);
    const bool b_along_k = !o_.spec.packed && !o_.spec.b_at && !is_constant(o_.spec.b.strides.back(), 1);
    b_.loop("slice", ceil_div(steps_, slice_), [&](Expr slice) {
      const Expr k0 = b_.let("k0", slice * slice_);
      fetch(a, height, a_along_k, [&](Expr p, Expr i, Buf& v) {
        b_.when(k0 + p < steps_ && row0_ + i < o_.m, [&] { v.set(load_a(row0_ + i, k0 + p)); });
      });
      fetch(b, width, b_along_k, [&](Expr p, Expr j, Buf& v) {
        const Expr column = o_.spec.pair ? b_.let("column", column0_ + j % (own_ * side_)) : column0_ + j;
        b_.when(k0 + p < steps_ && column < o_.n,
                [&] { v.set(load_b(k0 + p, o_.spec.pair ? column + j / (own_ * side_) * o_.n : column)); });
      });
      b_.barrier();
      b_.loop("p", slice_, [&](Expr p) {
        const std::vector<Expr> left = elements(a, p * height, rows_, beside_rows_, [&](int64_t i) { return row_at(i); });
        const std::vector<Expr> right =
            elements(b, p * width, columns_, beside_columns_, [&](int64_t j) { return column_at(j); });
        for (int64_t i = 0; i < rows_; ++i)
          for (int64_t j = 0; j < columns_; ++j) {
            Buf& sum = sums[static_cast<size_t>(i * columns_ + j)];
            sum.set(multiply_add(left[static_cast<size_t>(i)], right[static_cast<size_t>(j)], sum.get()));
          }
      });
      if (blocks()) {
        const int64_t slices = words_->steps_of_block() / slice_;
        const auto end = [&] { end_block(b_.let("block", slice / slices), sums, of_blocks); };
        slices == 1 ? end() : b_.when(slice % slices == slices - 1, end);
      }
      if (of_rows_)
        of_rows_->add(
            slice_, [&](Expr p, Expr i) { return a.load(p * height + i); },
            [&](Expr word, Expr sum) { return words_->add_a(word, sum); });
      if (of_columns_)
        of_columns_->add(
            slice_, [&](Expr p, Expr i) { return b.load(p * width + i); },
            [&](Expr word, Expr sum) { return words_->add_b(word, sum); });
      b_.barrier();
    });
    if (blocks()) sums = std::move(of_blocks);
    const int wide = words_ ? 1 : static_cast<int>(std::min(o_.lanes_of_writes(kNeighbours), beside_columns_));
    for (int64_t i = 0; i < rows_; ++i) {
      const Expr row = b_.let("row", row0_ + row_at(i));
      b_.when(row < o_.m, [&] {
        for (int64_t j = 0; j < own_; j += wide) {
          const Expr column = b_.let("column", column0_ + column_at(j));
          const auto sum = [&](int64_t at) {
            if (wide == 1) return sums[static_cast<size_t>(i * columns_ + at)].get();
            const Buf all = b_.registers("all", t, wide);
            for (int l = 0; l < wide; ++l) all.store(l, sums[static_cast<size_t>(i * columns_ + at + l)].get());
            return all.load(0, wide);
          };
          b_.when(column < o_.n, [&] {
            o_.write(row, column, words_ && !blocks() ? without_zeros(sum(j), row, column) : sum(j),
                     o_.spec.pair ? std::optional(sum(j + own_)) : std::nullopt);
          });
        }
      });
    }
  }

  bool blocks() const { return words_ && o_.spec.quantized; }

  // Adds the sums of products of a block to the totals.
  void end_block(Expr block, std::vector<Buf>& sums, std::vector<Buf>& to) {
    for (int64_t i = 0; i < rows_; ++i) {
      const Expr row = b_.let("row", min(row0_ + row_at(i), o_.m - 1));
      for (int64_t j = 0; j < columns_; ++j) {
        const Expr column = min(column0_ + column_at(j % own_), o_.n - 1) + j / own_ * o_.n;
        Buf &sum = sums[static_cast<size_t>(i * columns_ + j)], &total = to[static_cast<size_t>(i * columns_ + j)];
        total.set(words_->add_block(sum.get(), row, column, block, total.get()));
        sum.set(o_.b.value(DType::I32, 0));
      }
    }
  }

  Expr without_zeros(Expr sum, Expr row, Expr column) const {
    return words_->without_zeros(
        sum, row, column, [&] { return of_rows_ ? of_rows_->of(row - row0_) : words_->sum_of_row(row); },
        [&] { return of_columns_ ? of_columns_->of(column - column0_) : words_->sum_of_column(column); });
  }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  int64_t side_ = 1, rows_ = 1, columns_ = 1;  // threads along an axis; rows and columns per thread
  int64_t own_ = 1;                            // columns of the result per thread
  int64_t beside_rows_ = 1, beside_columns_ = 1;
  int64_t slice_ = kSlice;  // steps of k in shared memory
  std::optional<DotWords> words_;
  Expr steps_;  // of k
  Expr thread_, x_, y_, row0_, column0_;
  std::optional<TileTotals> of_rows_, of_columns_;
};

}  // namespace

void gemm_on_grid(GemmOperands& o, const Mapping& m) { GridTiles(o, m).run(); }

}  // namespace rlxc::kernel
