// A matmul of f16, bf16 or 8-bit integers on a grid with matrix units. A workgroup computes a tile of the result, each warp some
// units of it in registers. Slices of a and b are double-buffered in shared memory. The steps of k of one unit are contiguous for
// each row of a and column of b, because a thread reads several at once; a gap after every four rows avoids bank conflicts. Of
// 8-bit integers, a step of k is a word.
#include <algorithm>

#include "kernel/builders/dot_words.h"
#include "kernel/builders/matrix_fragment.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kSliceBytes = 64;  // of a row of a or column of b in shared memory
constexpr int64_t kDeep = 4;         // steps of k that a thread loads at once from contiguous rows or columns
constexpr int64_t kLarge = 512;

const MatrixUnit* unit_for(const GemmSpec& s, const Mapping& m) {
  if (s.quantized || !gemm_fills_matrix_unit(s.m, s.n, s.k)) return nullptr;
  if (s.dots) return s.dots->a == s.dots->b ? find_unit(m, s.dots->a, s.dots->accumulator) : nullptr;
  if (!is_float(s.accumulate) || s.a.dtype != s.b.dtype) return nullptr;
  return find_unit(m, s.a.dtype, s.accumulate);
}

// Returns a layout of words of 8-bit integers along k.
FragmentLayout in_words(FragmentLayout s, int8_t Step::*k) {
  std::rotate(s.element.begin(), s.element.begin() + 2, s.element.end());
  s.element_bits -= 2;
  for (Step& step : s.lane) step.*k = static_cast<int8_t>(step.*k / kWordCodes);
  for (Step& step : s.element) step.*k = static_cast<int8_t>(step.*k / kWordCodes);
  return s;
}

// Returns the unit as tiles see it: with words as operands if it multiplies 8-bit integers.
MatrixUnit seen_by_tiles(MatrixUnit u) {
  if (rlxc::bits(u.operand) > 8) return u;
  u.k /= kWordCodes;
  u.operand = DType::I32;
  u.a = in_words(u.a, &Step::column);
  u.b = in_words(u.b, &Step::row);
  return u;
}

// The tile of an operand. `i` is a row of a or a column of b.
struct Tile {
  const char* name;
  Buf from, shared, next;  // next: the thread's prefetched part of the next slice
  int64_t size = 0;
  bool along_k = false;        // contiguous along k in memory; else along i
  int64_t wide = 1, deep = 1;  // elements per load of a thread
  std::function<Expr(Expr i)> exists;
  std::function<Expr(Expr i, Expr k)> load;  // `wide` or `deep` elements, 0 beyond the operand
};

class MatrixTiles {
 public:
  MatrixTiles(GemmOperands& o, const Mapping& m, const MatrixUnit& u)
      : o_(o), b_(o.b), m_(m), unit_(u), u_(seen_by_tiles(u)), depth_(kSliceBytes * 8 / rlxc::bits(u_.operand)), steps_(o.k) {
    if (o.spec.dots) steps_ = words_.emplace(o, m).steps;
    const int64_t warps = std::max<int64_t>(std::min(m.workgroup_size, 256) / u.warp, 1);
    threads_ = warps * u.warp;
    warps_down_ = warps > 1 ? 2 : 1;
    warps_across_ = warps / warps_down_;
    // Larger tiles read less memory; smaller ones increase occupancy.
    int64_t rows = kLarge, columns = kLarge;
    constant(o.m, &rows);
    constant(o.n, &columns);
    const int64_t most = rows >= kLarge && columns >= kLarge ? 4 : 2;
    halves_ = o.spec.pair ? 2 : 1;
    down_ = std::clamp<int64_t>((rows + warps_down_ * u.m - 1) / (warps_down_ * u.m), 1, most);
    each_half_ = std::clamp<int64_t>((columns + warps_across_ * u.n - 1) / (warps_across_ * u.n), 1, most / halves_);
    own_ = warps_across_ * each_half_ * u.n;
    a_.size = warps_down_ * down_ * u.m;
    b_tile_.size = halves_ * own_;
  }

  void run() {
    const Expr rows = ceil_div(o_.m, a_.size), columns = ceil_div(o_.n, own_);
    for_each_workgroup(b_, m_, "tile", o_.batches() * rows * columns, threads_, [&](Expr tile, Expr thread) {
      o_.batch = split_index(b_.let("batch", tile / (rows * columns)), o_.spec.batch);
      row0_ = b_.let("row0", tile / columns % rows * a_.size);
      column0_ = b_.let("column0", tile % columns * own_);
      thread_ = thread;
      const Expr warp = thread / int64_t{u_.warp};
      down_at_ = b_.let("warp_row", warp / warps_across_);
      across_at_ = b_.let("warp_column", warp % warps_across_);
      in_warp_ = b_.let("in_warp", thread % int64_t{u_.warp});
      set_up();
      body();
    });
  }

 private:
  void set_up() {
    a_.name = "a";
    a_.from = o_.from_a;
    b_tile_.name = "b";
    b_tile_.from = o_.from_b;
    a_.exists = [&](Expr i) { return row0_ + i < o_.m; };
    auto column = [&](Expr i) { return halves_ == 1 ? column0_ + i : column0_ + i % own_; };
    b_tile_.exists = [this, column](Expr i) { return column(i) < o_.n; };
    if (words_) return plan_words();
    const GemmSpec& s = o_.spec;
    plan(&a_, s.a, s.a.strides.size() - 1, o_.k, o_.m, false);
    plan(&b_tile_, s.b, s.b.strides.size() - 2, o_.k, o_.n, s.b_at != nullptr);
    const auto loads = [this](Tile& t, const std::function<Expr(Expr i, Expr k)>& at) {
      t.load = [this, &t, at](Expr i, Expr p) {
        const int vector = static_cast<int>(t.along_k ? t.deep : t.wide);
        return t.from.load_if(t.exists(i) && p < o_.k, at(i, p), broadcast(b_.value(u_.operand, 0), vector), vector);
      };
    };
    loads(a_, [&](Expr i, Expr k) { return o_.where_a(row0_ + i, k); });
    loads(b_tile_,
          [this, column](Expr i, Expr k) { return o_.where_b(k, halves_ == 1 ? column(i) : column(i) + i / own_ * o_.n); });
  }

  // Chooses the loads of words.
  void plan_words() {
    const bool whole = is_multiple(o_.k, words_->unit.group);
    const int most = static_cast<int>(std::min<int64_t>(m_.load_lanes(4), kDeep));
    const auto guarded = [this](Expr condition, const std::function<Expr()>& value) {
      Buf v = b_.variable("word", words_->none());
      b_.when(condition, [&] { v.set(value()); });
      return v.get();
    };
    a_.along_k = true;
    a_.deep = words_->most_words_of_a(most);
    a_.load = [=, this](Expr i, Expr p) {
      const Expr reads = a_.exists(i) && p < steps_, row = row0_ + i;
      if (a_.deep > 1) return words_->words_of_a(row, p, static_cast<int>(a_.deep), reads);
      return guarded(reads, [&] { return words_->word_of_a(row, p, whole); });
    };
    b_tile_.deep = kDeep;
    b_tile_.wide = words_->has_columns() ? most : 1;
    b_tile_.load = [=, this](Expr i, Expr p) {
      const Expr reads = b_tile_.exists(i) && p < steps_;
      if (b_tile_.wide > 1) return words_->words_of_panel(p, column0_ + i, static_cast<int>(b_tile_.wide), reads);
      return guarded(reads, [&] { return words_->word_of_b(p, column0_ + i, whole); });
    };
  }

  // Chooses the load width: along k (axis `k_axis`) or along the other one of the last two axes.
  void plan(Tile* t, const Operand& from, size_t k_axis, Expr k, Expr length, bool computed) {
    const size_t other = 2 * from.strides.size() - 3 - k_axis;
    auto widest = [&](size_t axis, Expr extent, int64_t most) -> int64_t {
      if (computed || !is_constant(from.strides[axis], 1)) return 1;
      most = std::min<int64_t>(most, m_.load_lanes(rlxc::bits(u_.operand) / 8));
      auto fits = [&](int64_t n) {
        bool all = is_multiple(from.offset, n) && is_multiple(extent, n);
        for (size_t d = 0; d < from.strides.size(); ++d) all = all && (d == axis || is_multiple(from.strides[d], n));
        return all;
      };
      while (most > 1 && !fits(most)) most /= 2;
      return most;
    };
    t->along_k = !computed && is_constant(from.strides[k_axis], 1);
    t->deep = t->along_k ? widest(k_axis, k, u_.k) : kDeep;
    t->wide = t->along_k ? 1 : widest(other, length, kDeep);
  }

  // Returns the offset of element (i, k) of a slice in shared memory.
  Expr place(const Tile& t, Expr i, Expr k) const {
    return (k / int64_t{u_.k} * padded(t.size) + i + i / 4) * int64_t{u_.k} + k % int64_t{u_.k};
  }
  static int64_t padded(int64_t size) { return size + size / 4; }
  int64_t slice_elements(const Tile& t) const { return depth_ * padded(t.size); }
  int64_t blocks(const Tile& t) const { return t.size * depth_ / (t.wide * t.deep); }

  // Calls f(the thread's block number, first i, first k) for this thread's blocks of the slice.
  void each_block(const Tile& t, const std::function<void(Expr, Expr, Expr)>& f) {
    const int64_t all = blocks(t), deep = u_.k / t.deep, wide = t.size / t.wide;
    b_.unroll("e", (all + threads_ - 1) / threads_, [&](Expr e) {
      const Expr block = b_.let("block", e * threads_ + thread_);
      const Expr k = block / (deep * wide) * int64_t{u_.k} + block % deep * t.deep, i = block / deep % wide * t.wide;
      auto one = [&] { f(e, b_.let("i", i), b_.let("k", k)); };
      all % threads_ == 0 ? one() : b_.when(block < all, one);
    });
  }

  void fetch(Tile& t, Expr k0) {
    each_block(t, [&](Expr e, Expr i, Expr k) {
      if (t.along_k) return t.next.store(e * t.deep, t.load(i, k0 + k));
      for (int64_t p = 0; p < t.deep; ++p) {
        const Expr v = b_.let("v", t.load(i, k0 + k + p));
        for (int64_t j = 0; j < t.wide; ++j)
          t.next.store((e * t.wide + j) * t.deep + p, rlxc::kernel::lane(v, static_cast<int>(j)));
      }
    });
  }

  void put(const Tile& t, Expr base) {
    each_block(t, [&](Expr e, Expr i, Expr k) {
      for (int64_t j = 0; j < t.wide; ++j)
        t.shared.store(base + place(t, i + j, k), t.next.load((e * t.wide + j) * t.deep, static_cast<int>(t.deep)));
    });
  }

  Expr along(const FragmentLayout& s, int8_t Step::*axis) const { return lane_start(b_, u_, s, axis, in_warp_); }

  // Returns a thread's vector for the unit at row (column) i and step k.
  Expr part(const Tile& t, const FragmentLayout& s, int8_t Step::*of_i, int8_t Step::*of_k, Expr base, Expr i, Expr k) {
    return fragment(b_, u_, s, of_k, (std::string("part_") + t.name).c_str(), [&](Step at, int run) {
      return t.shared.load(base + place(t, i + int64_t{at.*of_i}, k + int64_t{at.*of_k}), run);
    });
  }

  // Returns the first column of a warp's unit v in the tile of b.
  Expr unit_column(int64_t v) const { return across_at_ * (each_half_ * u_.n) + v / each_half_ * own_ + v % each_half_ * u_.n; }
  Expr unit_row(int64_t u) const { return down_at_ * (down_ * u_.m) + u * u_.m; }

  void multiply(Expr now, std::vector<Buf>& sums) {
    const Expr a_row = b_.let("a_row", along(u_.a, &Step::row)), a_step = b_.let("a_step", along(u_.a, &Step::column));
    const Expr b_column = b_.let("b_column", along(u_.b, &Step::column)), b_step = b_.let("b_step", along(u_.b, &Step::row));
    const Expr a_base = b_.let("a_base", now * slice_elements(a_)), b_base = b_.let("b_base", now * slice_elements(b_tile_));
    const auto operand = [&](Expr v, const FragmentLayout& s) {
      return words_ ? bitcast_to(v, Type(unit_.operand, s.elements())) : v;
    };
    for (int64_t k = 0; k < depth_; k += u_.k) {
      std::vector<Expr> left, right;
      for (int64_t u = 0; u < down_; ++u)
        left.push_back(operand(part(a_, u_.a, &Step::row, &Step::column, a_base, unit_row(u) + a_row, a_step + k), unit_.a));
      for (int64_t v = 0; v < halves_ * each_half_; ++v)
        right.push_back(
            operand(part(b_tile_, u_.b, &Step::column, &Step::row, b_base, unit_column(v) + b_column, b_step + k), unit_.b));
      for (size_t u = 0; u < left.size(); ++u)
        for (size_t v = 0; v < right.size(); ++v) {
          Buf& sum = sums[u * right.size() + v];
          sum.set(b_.matrix_multiply(unit_, left[u], right[v], sum.get()));
        }
    }
  }

  void body() {
    for (Tile* t : {&a_, &b_tile_}) {
      t->shared = b_.shared(std::string("tile_") + t->name, u_.operand, 2 * slice_elements(*t));
      t->next =
          b_.registers(std::string("next_") + t->name, u_.operand, (blocks(*t) + threads_ - 1) / threads_ * t->wide * t->deep);
    }
    std::vector<Buf> sums;
    for (int64_t i = 0; i < down_ * halves_ * each_half_; ++i) sums.push_back(b_.variable("sum", o_.zero(u_.c.elements())));
    auto move = [&](Expr slice, bool get) {
      for (Tile* t : {&a_, &b_tile_}) get ? fetch(*t, slice * depth_) : put(*t, slice % int64_t{2} * slice_elements(*t));
    };
    if (words_ && words_->needs_rows() && !words_->has_rows()) of_rows_.emplace(b_, "row_sums", a_.size, thread_, threads_);
    if (words_ && words_->needs_columns() && !words_->has_columns())
      of_columns_.emplace(b_, "column_sums", b_tile_.size, thread_, threads_);
    move(b_.i64(0), true);
    move(b_.i64(0), false);
    b_.barrier();
    b_.loop("slice", ceil_div(steps_, depth_), [&](Expr slice) {
      const Expr next = b_.let("next", slice + 1);
      move(next, true);
      const Expr now = b_.let("now", slice % int64_t{2});
      multiply(now, sums);
      const auto word_of = [&](const Tile& t) {
        return [&, now](Expr p, Expr i) { return t.shared.load(now * slice_elements(t) + place(t, i, p)); };
      };
      if (of_rows_) of_rows_->add(depth_, word_of(a_), [&](Expr word, Expr sum) { return words_->add_a(word, sum); });
      if (of_columns_) of_columns_->add(depth_, word_of(b_tile_), [&](Expr word, Expr sum) { return words_->add_b(word, sum); });
      move(next, false);
      b_.barrier();
    });
    write(sums);
  }

  void write(const std::vector<Buf>& sums) {
    const Expr row_part = b_.let("row_part", row0_ + along(u_.c, &Step::row)),
               column_part = b_.let("column_part", column0_ + along(u_.c, &Step::column));
    const int64_t across = halves_ * each_half_;
    for (int64_t u = 0; u < down_; ++u)
      for (int e = 0; e < u_.c.elements(); ++e) {
        const Step at = u_.c.of_element(e);
        const Expr row = b_.let("row", row_part + unit_row(u) + int64_t{at.row});
        b_.when(row < o_.m, [&] {
          for (int64_t v = 0; v < each_half_; ++v) {
            const Expr column = b_.let("column", column_part + unit_column(v) + int64_t{at.column});
            auto sum = [&](int64_t i) {
              const Expr all = rlxc::kernel::lane(sums[static_cast<size_t>(u * across + i)].get(), e);
              return words_ ? without_zeros(all, row, column) : all;
            };
            b_.when(column < o_.n,
                    [&] { o_.write(row, column, sum(v), o_.spec.pair ? std::optional(sum(v + each_half_)) : std::nullopt); });
          }
        });
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
  const MatrixUnit& unit_;
  const MatrixUnit u_;   // as tiles see it
  const int64_t depth_;  // steps of k in shared memory
  Expr steps_;           // of k
  std::optional<DotWords> words_;
  std::optional<TileTotals> of_rows_, of_columns_;
  int64_t threads_ = 1, warps_down_ = 1, warps_across_ = 1;
  int64_t down_ = 1, each_half_ = 1, halves_ = 1;  // units per warp: rows, columns per half of b, halves (2 with `pair`)
  int64_t own_ = 1;                                // columns of the result in the tile
  Tile a_, b_tile_;
  Expr thread_, in_warp_, down_at_, across_at_, row0_, column0_;
};

}  // namespace

bool gemm_on_matrix_units(GemmOperands& o, const Mapping& m) {
  const MatrixUnit* unit = unit_for(o.spec, m);
  if (unit) MatrixTiles(o, m, *unit).run();
  return unit != nullptr;
}

}  // namespace rlxc::kernel
