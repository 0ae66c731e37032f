// A matmul on a grid. A workgroup computes a square tile of the result, a thread some of its rows and columns in registers.
// Slices of a and b are converted once and go through shared memory, laid out for accesses of neighbours by neighbouring threads.
// Threads load the next slice into registers while they multiply one. On a dot unit, a step of k is a word.
#include <algorithm>
#include <numeric>

#include "kernel/builders/dot_words.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kSlice = 16;      // most steps of k in shared memory, of a group of threads
constexpr int64_t kNeighbours = 4;  // neighbouring rows or columns of a thread, which it reads at once
constexpr int64_t kGap = 4;         // elements after each step of k of rows contiguous along k, or each of these rows

// Rows and columns per thread, and groups of threads that share a tile and split the steps of k. From the largest tile on: large
// ones read less memory, small ones occupy the device.
struct Shape {
  int64_t rows, columns, deep;
};
constexpr Shape kShapes[] = {{8, 8, 1}, {4, 8, 1}, {8, 4, 1}, {4, 4, 1}, {4, 8, 4}, {8, 4, 4}, {4, 4, 4}};

// The tile of an operand. `i` is a row of a or a column of b.
struct GridSide {
  Buf shared, next;  // next: the thread's elements of the next slice
  int64_t size = 0, pitch = 0, wide = 1;
  bool along_k = false;                      // whether neighbouring threads read along k, else along i
  bool keeps_rows = false;                   // whether steps of k are neighbours in shared memory, else rows or columns
  std::function<Expr(Expr i, Expr p)> load;  // `wide` elements along k or i; 0 beyond the operand

  Expr place(Expr i, Expr p) const { return keeps_rows ? i * pitch + p : p * pitch + i; }
  int64_t elements(int64_t steps) const { return (keeps_rows ? size : steps) * pitch; }
};

class GridTiles {
 public:
  GridTiles(GemmOperands& o, const Mapping& m) : o_(o), b_(o.b), m_(m) {
    if (o.spec.dots) words_.emplace(o, m);
    steps_ = words_ ? words_->steps : o.k;
    if (blocks())
      while (words_->steps_of_block() % slice_ != 0) --slice_;
    while ((2 * side_) * (2 * side_) <= std::min<int64_t>(m.workgroup_size, 256)) side_ *= 2;
    choose_tile();
    // With `pair`, a thread has as many columns of each half.
    own_ = o.spec.two_sums ? std::max<int64_t>(1, columns_ / 2) : columns_;
    if (o.spec.two_sums) columns_ = 2 * own_;
    if (m.load_lanes(4) >= kNeighbours) {
      beside_rows_ = std::gcd(rows_, kNeighbours);
      beside_columns_ = std::gcd(own_, kNeighbours);
    }
  }

  void run() {
    const Expr columns = ceil_div(o_.n, own_ * side_), rows = ceil_div(o_.m, rows_ * side_);
    for_each_workgroup(b_, m_, "tile", o_.batches() * rows * columns, threads(), [&](Expr tile, Expr thread) {
      o_.batch = split_index(b_.let("batch", tile / (rows * columns)), o_.spec.batch);
      row0_ = b_.let("row0", tile / columns % rows * (rows_ * side_));
      column0_ = b_.let("column0", tile % columns * (own_ * side_));
      thread_ = thread;
      deep_at_ = b_.let("group", thread / (side_ * side_));
      in_group_ = b_.let("in_group", thread % (side_ * side_));
      const Expr beside = in_group_ % side_, apart = in_group_ / side_;  // threads that are neighbours write neighbours
      x_ = b_.let("x", o_.c_down() ? apart : beside);
      y_ = b_.let("y", o_.c_down() ? beside : apart);
      body();
    });
  }

 private:
  void choose_tile() {
    int64_t rows = 0, columns = 0, k = INT64_MAX, batches = 1;
    const bool known = constant(o_.m, &rows) && constant(o_.n, &columns);
    constant(steps_, &k);
    constant(o_.batches(), &batches);
    const int64_t whole = side_;
    for (const Shape& shape : kShapes) {
      const bool large = shape.rows * shape.columns > 16, splits = shape.deep > 1;
      if (!known && (large || splits)) continue;
      const int64_t side = splits ? whole / 2 : whole, slice = splits ? shape.deep * kSlice : slice_;
      if (splits && (blocks() || whole % 2 != 0 || k < slice)) continue;
      const auto tiles = [&](int64_t size, int64_t each) { return (size + each * side - 1) / (each * side); };
      const int64_t down = known ? std::min(shape.rows, tiles(rows, 1)) : shape.rows,
                    across = known ? std::min(shape.columns, tiles(columns, 1)) : shape.columns;
      const auto fits = [&](int64_t stages) {
        const int64_t in_slice = side * (down + across),
                      gaps = kGap * (m_.whole_vectors ? std::max(in_slice, 2 * slice) : 2 * slice);
        const int64_t elements = stages * (slice * in_slice + gaps) + (shape.deep - 1) * down * across * side * side;
        return elements * rlxc::bits(element_type()) / 8 <= m_.shared_bytes;
      };
      if (!fits(1)) continue;
      rows_ = down, columns_ = across, deep_ = shape.deep, side_ = side, slice_ = slice, stages_ = fits(2) ? 2 : 1;
      const int64_t least = m_.busy_workgroups * (large && !splits ? 2 : 1);
      if (!known || batches * tiles(rows, rows_) * tiles(columns, columns_) >= least) break;
    }
  }

  bool plain() const { return !words_ && !o_.spec.quantized && !o_.spec.a_zero && !o_.spec.b_zero && !o_.spec.packed; }

  // Chooses how threads load a side: `k_axis` and the other one of the last two axes of the operand have these extents.
  void plan(GridSide& t, const Operand& from, size_t k_axis, Expr length, bool computed) {
    t.along_k = k_axis + 1 == from.strides.size() ? is_constant(from.strides[k_axis], 1)
                                                  : !computed && !o_.spec.packed && !is_constant(from.strides.back(), 1);
    if (plain()) {
      const size_t axis = t.along_k ? k_axis : 2 * from.strides.size() - 3 - k_axis;
      const int64_t most = std::min<int64_t>({kNeighbours, m_.load_lanes(rlxc::bits(from.dtype) / 8), m_.load_lanes(4)});
      if (computed) t.along_k = most > 1 && o_.spec.b_run % most == 0;
      if (!computed || t.along_k) t.wide = computed ? most : contiguous_lanes(from, axis, t.along_k ? o_.k : length, most);
      while (slice_ % t.wide != 0) t.wide /= 2;
    }
    // Whole vectors along k are stored as they are read.
    t.keeps_rows = m_.whole_vectors && plain() && &t == &a_ && t.along_k && t.wide == kNeighbours;
    if (t.keeps_rows) beside_rows_ = 1;
    t.pitch = t.keeps_rows ? slice_ + kGap : t.size + (t.along_k ? kGap : 0);
  }

  void plan_loads() {
    plan(a_, o_.spec.a, o_.spec.a.strides.size() - 1, o_.m, false);
    plan(b_side_, o_.spec.b, o_.spec.b.strides.size() - 2, o_.n, o_.spec.b_at != nullptr);
    const auto guarded = [this](Expr condition, const std::function<Expr()>& value) {
      Buf v = b_.variable("v", constant_int(b_.kernel(), element_type(), 0));
      b_.when(condition, [&] { v.set(value()); });
      return v.get();
    };
    const auto loaded = [this](const GridSide& t, const Buf& from, Expr condition, Expr at) {
      const int lanes = static_cast<int>(t.wide);
      const Expr none = broadcast(constant_int(b_.kernel(), from.type().dtype, 0), lanes);
      return cast_to(from.load_if(condition, at, none, lanes), element_type());
    };
    a_.load = [=, this](Expr i, Expr p) {
      const Expr row = row0_ + i, reads = row < o_.m && p < steps_;
      return plain() ? loaded(a_, o_.from_a, reads, o_.where_a(row, p)) : guarded(reads, [&] { return load_a(row, p); });
    };
    b_side_.load = [=, this](Expr i, Expr p) {
      const bool pair = o_.spec.two_sums;
      const Expr first = pair ? b_.let("column", column0_ + i % (own_ * side_)) : column0_ + i,
                 reads = first < o_.n && p < steps_, column = pair ? first + i / (own_ * side_) * o_.n : first;
      return plain() ? loaded(b_side_, o_.from_b, reads, o_.where_b(p, column))
                     : guarded(reads, [&] { return load_b(p, column); });
    };
  }

  // Calls f(the thread's block number, first i, first step of k) for its blocks of `wide` elements of a slice.
  void each_block(const GridSide& t, const std::function<void(Expr, Expr, Expr)>& f) {
    const int64_t blocks = slice_ * t.size / t.wide, deep = t.along_k ? slice_ / t.wide : slice_,
                  across = t.along_k ? t.size : t.size / t.wide;
    b_.unroll("e", (blocks + threads() - 1) / threads(), [&](Expr e) {
      const Expr block = b_.let("block", e * threads() + thread_);
      const Expr p = t.along_k ? block % deep * t.wide : block / across, i = t.along_k ? block / deep : block % across * t.wide;
      const auto one = [&] { f(e, b_.let("i", i), b_.let("p", p)); };
      blocks % threads() == 0 ? one() : b_.when(block < blocks, one);
    });
  }
  void fetch(const GridSide& t, Expr k0) {
    each_block(t, [&](Expr e, Expr i, Expr p) { t.next.store(e * t.wide, t.load(i, k0 + p)); });
  }
  void put(const GridSide& t, Expr base) {
    each_block(t, [&](Expr e, Expr i, Expr p) {
      const Expr v = t.next.load(e * t.wide, static_cast<int>(t.wide));
      if (!t.along_k || t.wide == 1 || t.keeps_rows) return t.shared.store(base + t.place(i, p), v);
      for (int l = 0; l < t.wide; ++l) t.shared.store(base + t.place(i, p + l), rlxc::kernel::lane(v, l));
    });
  }
  Expr stage(const GridSide& t, Expr slice) const { return slice % stages_ * t.elements(slice_); }

  // Returns the row of a thread's sums i, and the column of its sums j in the tile of b, whose halves follow one another.
  Expr row_at(int64_t i) const { return y_ * beside_rows_ + (i / beside_rows_ * side_ * beside_rows_ + i % beside_rows_); }
  Expr column_at(int64_t j) const {
    const int64_t in_half = j % own_, first = in_half / beside_columns_ * side_ * beside_columns_ + in_half % beside_columns_;
    return x_ * beside_columns_ + (j / own_ * own_ * side_ + first);
  }
  // Returns the elements that a thread multiplies, of `steps` steps of k from p on: of each step `count`.
  std::vector<std::vector<Expr>> elements(const GridSide& t, Expr base, Expr p, int64_t steps, int64_t count, int64_t beside,
                                          const std::function<Expr(int64_t)>& at) {
    std::vector<std::vector<Expr>> all(static_cast<size_t>(steps));
    for (int64_t i = 0; t.keeps_rows && i < count; ++i) {
      const Expr v = b_.let("row", t.shared.load(base + t.place(at(i), p), static_cast<int>(steps)));
      for (int64_t s = 0; s < steps; ++s) all[static_cast<size_t>(s)].push_back(rlxc::kernel::lane(v, static_cast<int>(s)));
    }
    for (int64_t s = 0; !t.keeps_rows && s < steps; ++s)
      for (int64_t i = 0; i < count; i += beside) {
        const Expr v = t.shared.load(base + t.place(at(i), p + s), static_cast<int>(beside));
        for (int l = 0; l < beside; ++l) all[static_cast<size_t>(s)].push_back(beside == 1 ? v : rlxc::kernel::lane(v, l));
      }
    return all;
  }

  DType element_type() const { return words_ ? DType::I32 : o_.spec.accumulate; }  // of tiles
  DType sum_type() const { return words_ ? words_->unit.accumulator : o_.spec.accumulate; }
  bool whole_words() const { return is_multiple(o_.k, words_->unit.group); }
  Expr load_a(Expr row, Expr p) const { return words_ ? words_->word_of_a(row, p, whole_words()) : o_.load_a(row, p); }
  Expr load_b(Expr p, Expr column) const { return words_ ? words_->word_of_b(p, column, whole_words()) : o_.load_b(p, column); }
  Expr multiply_add(Expr x, Expr y, Expr sum) const { return words_ ? words_->a_times_b(x, y, sum) : o_.multiply_add(x, y, sum); }

  void body() {
    a_.size = rows_ * side_, b_side_.size = columns_ * side_;
    plan_loads();
    for (auto [side, name] : {std::pair{&a_, "a"}, {&b_side_, "b"}}) {
      const int64_t blocks = slice_ * side->size / side->wide;
      side->shared = b_.shared(std::string("tile_") + name, element_type(), stages_ * side->elements(slice_));
      side->next = b_.registers(std::string("next_") + name, element_type(), (blocks + threads() - 1) / threads() * side->wide);
    }
    if (words_ && words_->needs_rows() && !words_->has_rows()) of_rows_.emplace(b_, "row_sums", a_.size, thread_, threads());
    if (words_ && words_->needs_columns() && !words_->has_columns())
      of_columns_.emplace(b_, "column_sums", b_side_.size, thread_, threads());
    std::vector<Buf> sums, of_blocks;
    for (int64_t i = 0; i < rows_ * columns_; ++i) sums.push_back(b_.variable("sum", constant_int(b_.kernel(), sum_type(), 0)));
    for (int64_t i = 0; blocks() && i < rows_ * columns_; ++i) of_blocks.push_back(b_.variable("total", b_.f32(0)));
    int64_t known_steps = INT64_MAX;
    constant(steps_, &known_steps);
    const bool several = known_steps > slice_;
    for (const GridSide* side : {&a_, &b_side_}) {
      fetch(*side, b_.i64(0));
      put(*side, b_.i64(0));
    }
    b_.loop("slice", ceil_div(steps_, slice_), [&](Expr slice) {
      b_.barrier();
      const Expr next = b_.let("next", slice + 1), a_base = b_.let("a_base", stage(a_, slice)),
                 b_base = b_.let("b_base", stage(b_side_, slice));
      for (const GridSide* side : {&a_, &b_side_})
        if (several) fetch(*side, next * slice_);
      const int64_t together = a_.keeps_rows ? kNeighbours : 1;
      b_.unroll("p", slice_ / deep_ / together, [&](Expr step) {
        const Expr p = deep_ == 1 ? step * together : b_.let("own", (step * deep_ + deep_at_) * together);
        const auto left = elements(a_, a_base, p, together, rows_, beside_rows_, [&](int64_t i) { return row_at(i); });
        const auto right =
            elements(b_side_, b_base, p, together, columns_, beside_columns_, [&](int64_t j) { return column_at(j); });
        for (size_t s = 0; s < left.size(); ++s)
          for (int64_t i = 0; i < rows_; ++i)
            for (int64_t j = 0; j < columns_; ++j) {
              Buf& sum = sums[static_cast<size_t>(i * columns_ + j)];
              sum.set(multiply_add(left[s][static_cast<size_t>(i)], right[s][static_cast<size_t>(j)], sum.get()));
            }
      });
      if (blocks()) {
        const int64_t slices = words_->steps_of_block() / slice_;
        const auto end = [&] { end_block(b_.let("block", slice / slices), sums, of_blocks); };
        slices == 1 ? end() : b_.when(slice % slices == slices - 1, end);
      }
      if (of_rows_)
        of_rows_->add(
            slice_, [&](Expr p, Expr i) { return a_.shared.load(a_base + a_.place(i, p)); },
            [&](Expr word, Expr sum) { return words_->add_a(word, sum); });
      if (of_columns_)
        of_columns_->add(
            slice_, [&](Expr p, Expr i) { return b_side_.shared.load(b_base + b_side_.place(i, p)); },
            [&](Expr word, Expr sum) { return words_->add_b(word, sum); });
      if (several && stages_ == 1) b_.barrier();
      for (const GridSide* side : {&a_, &b_side_})
        if (several) put(*side, stage(*side, next));
    });
    if (of_rows_ || of_columns_) b_.barrier();
    if (blocks()) sums = std::move(of_blocks);
    if (deep_ == 1) return write(sums);
    add_groups(sums);
    b_.when(deep_at_ == 0, [&] { write(sums); });
  }

  // Adds the sums of the groups that share the tile to those of the first one.
  void add_groups(std::vector<Buf>& sums) {
    const auto count = static_cast<int64_t>(sums.size());
    const Buf partial = b_.shared("partial", sum_type(), (deep_ - 1) * count * side_ * side_);
    const auto place = [&](Expr group, int64_t i) { return (group * count + i) * (side_ * side_) + in_group_; };
    b_.when(deep_at_ > 0, [&] {
      for (int64_t i = 0; i < count; ++i) partial.store(place(deep_at_ - 1, i), sums[static_cast<size_t>(i)].get());
    });
    b_.barrier();
    b_.when(deep_at_ == 0, [&] {
      for (int64_t i = 0; i < count; ++i) {
        Buf& sum = sums[static_cast<size_t>(i)];
        for (int64_t group = 0; group + 1 < deep_; ++group) sum.set(sum.get() + partial.load(place(b_.i64(group), i)));
      }
    });
  }

  void write(const std::vector<Buf>& sums) const {
    const DType t = sum_type();
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
            const auto whole = [&](bool second) {
              const Expr all = sum(second ? j + own_ : j);
              return words_ && !blocks() ? without_zeros(all, row, column, second) : all;
            };
            o_.write(row, column, whole(false), o_.spec.two_sums ? std::optional(whole(true)) : std::nullopt);
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

  // `second`: the sum of column n + column.
  Expr without_zeros(Expr sum, Expr row, Expr column, bool second) const {
    const Expr of_b = second ? column + o_.n : column, in_tile = column - column0_ + (second ? own_ * side_ : 0);
    return words_->without_zeros(
        sum, row, of_b, [&] { return of_rows_ ? of_rows_->of(row - row0_) : words_->sum_of_row(row); },
        [&] { return of_columns_ ? of_columns_->of(in_tile) : words_->sum_of_column(of_b); });
  }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  int64_t threads() const { return side_ * side_ * deep_; }
  int64_t side_ = 1, rows_ = 1, columns_ = 1;  // threads along an axis of a group; rows and columns per thread
  int64_t deep_ = 1;                           // groups of threads, each with its own steps of k
  int64_t own_ = 1;                            // columns of the result per thread
  int64_t beside_rows_ = 1, beside_columns_ = 1;
  int64_t slice_ = kSlice, stages_ = 1;  // steps of k in a slice, and slices in shared memory
  GridSide a_, b_side_;
  std::optional<DotWords> words_;
  Expr steps_;  // of k
  Expr thread_, deep_at_, in_group_, x_, y_, row0_, column0_;
  std::optional<TileTotals> of_rows_, of_columns_;
};

}  // namespace

void gemm_on_grid(GemmOperands& o, const Mapping& m) { GridTiles(o, m).run(); }

}  // namespace rlxc::kernel
