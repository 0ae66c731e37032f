// Attention on workgroups (after FlashAttention-2, Dao 2023). A workgroup computes a block of queries of a head; each warp
// computes the rows of one tile of scores. Blocks of keys and values go through shared memory, of which they use one part in turn
// where that leaves room for more warps. Scores, result rows and the running maximum and sum stay in registers. f16 and bf16 use
// matrix units if available, else each thread computes its elements. Exponentials go through shared memory, because a unit's
// result layout differs from its left operand's.
#include <algorithm>
#include <map>

#include "kernel/builders/attention_operands.h"
#include "kernel/builders/matrix_fragment.h"
#include "kernel/builders/reduce.h"

namespace rlxc::kernel {
namespace {

using AttentionPart = AttentionOperands::Part;

constexpr int64_t kWarps = 4, kMostKeys = 64;  // at most: warps per workgroup, keys per block
constexpr int64_t kGoodKeys = 16;              // a block of so many keys is worth more than room for other workgroups
constexpr int64_t kWidest = 256;               // widest head whose results fit in registers
constexpr int64_t kLeastChunk = 32;            // elements of a head, of which a block is in shared memory at a time
constexpr int64_t kGapBytes = 16;              // padding between rows in shared memory, against bank conflicts
constexpr int64_t kUnrolled = 8;
constexpr int kLanes = 32;  // of a tile, where threads do not shuffle

// A matmul operand in shared memory, with `depth` elements along the contraction. `across`: these are not neighbours.
struct SharedRows {
  Buf data;
  int64_t rows = 0, depth = 0, gap = 0;
  bool across = false;
  int64_t pitch() const { return (across ? rows : depth) + gap; }
  int64_t elements() const { return (across ? depth : rows) * pitch(); }
  Expr place(Expr row, Expr k) const { return across ? k * pitch() + row : row * pitch() + k; }
};

int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

// The layout of a tile that a warp computes without a matrix unit: eight threads across, each with four rows and two or four
// columns, which are neighbours in a tile of results.
MatrixUnit lane_tile(int warp, DType t, bool of_results) {
  const int down = warp / 8, bits = of_results ? 2 : 1;
  FragmentLayout c = {{columns(1), columns(2), columns(4)}, {columns(8)}, bits + 2};
  if (of_results) c = {{columns(4), columns(8), columns(16)}, {columns(1), columns(2)}, bits + 2};
  c.element[static_cast<size_t>(bits)] = rows(down);
  c.element[static_cast<size_t>(bits) + 1] = rows(2 * down);
  for (int bit = 3; 1 << bit < warp; ++bit) c.lane[static_cast<size_t>(bit)] = rows(1 << (bit - 3));
  return {4 * down, 8 << bits, 4, warp, t, t, {}, {}, c};
}

class GridAttention {
 public:
  // The tiles of scores and of results have the same rows.
  GridAttention(AttentionOperands& o, const Mapping& m, const MatrixUnit& scores, const MatrixUnit& results, bool by_unit)
      : o_(o), b_(o.b), m_(m), u_(scores), r_(results), by_unit_(by_unit), shuffles_(m.warp > 1) {
    for (int e = 0; e < u_.c.elements(); ++e)
      if (!std::ranges::count(own_rows_, u_.c.of_element(e).row)) own_rows_.push_back(u_.c.of_element(e).row);
    for (SharedRows* rows : {&q_, &keys_, &values_, &exponentials_}) rows->gap = kGapBytes / element_bytes();
    if (!shuffles_) exponentials_.gap = 0;
    keys_.across = by_unit && u_.b.element_bits > 0 && u_.b.element[0] == columns(1);
    values_.across = !by_unit || keys_.across;
  }

  // Chooses the most warps and keys that fit in shared memory, first in what leaves room for other workgroups. Returns false if
  // none fit.
  bool plan() {
    if (o_.spec.width > kWidest || o_.spec.value_width > kWidest) return false;
    int64_t most_warps = std::clamp<int64_t>(m_.max_workgroup_size / u_.warp, 1, kWarps), queries = 0;
    if (constant(o_.queries, &queries))
      while (most_warps > 1 && most_warps / 2 * u_.m >= queries) most_warps /= 2;
    const int64_t least = std::max(u_.k, u_.n);
    int64_t most_keys = o_.spec.value_width > 64 ? kMostKeys / 2 : kMostKeys, keys = 0;
    if (constant(o_.keys, &keys))
      while (most_keys / 2 >= std::max(least, keys)) most_keys /= 2;
    const auto choose = [&](int64_t bytes, int64_t fewest_warps, int64_t fewest_keys) {
      for (warps_ = most_warps; warps_ >= fewest_warps; warps_ /= 2)
        for (int64_t n = most_keys; n >= std::max(least, fewest_keys); n /= 2)
          if (fits(n, bytes)) return true;
      return false;
    };
    if (m_.shared_bytes_of_several > 0 &&
        choose(m_.shared_bytes_of_several, std::min<int64_t>(most_warps, 2), std::min(kGoodKeys, most_keys)))
      return true;
    return choose(m_.shared_bytes, 1, 1);
  }

  void run() {
    const int64_t rows = q_.rows;
    const Expr heads = o_.spec.heads.in(b_.kernel()), blocks = ceil_div(o_.queries, rows);
    threads_ = warps_ * u_.warp;
    for_each_workgroup(b_, m_, "work", o_.spec.batch.in(b_.kernel()) * heads * blocks, threads_, [&](Expr work, Expr thread) {
      first_ = b_.let("query0", work % blocks * rows);
      o_.at_head(b_.let("batch", work / (blocks * heads)), b_.let("head", work / blocks % heads));
      thread_ = thread;
      in_warp_ = b_.let("in_warp", thread % int64_t{u_.warp});
      warp_row_ = b_.let("warp_row", thread / int64_t{u_.warp} * int64_t{u_.m});
      row_ = b_.let("row", warp_row_ + start(u_, u_.c, &Step::row));
      column_ = b_.let("column", start(u_, u_.c, &Step::column));
      result_column_ = b_.let("result_column", start(r_, r_.c, &Step::column));
      body();
    });
  }

 private:
  // Sets the sizes for a block of `keys` keys. Keys and values are in shared memory together, in turn, or in turn and in chunks.
  bool fits(int64_t keys, int64_t bytes) {
    const int64_t depth = round_up(o_.spec.width, u_.k), values = round_up(o_.spec.value_width, r_.n);
    q_.rows = exponentials_.rows = warps_ * u_.m;
    q_.depth = depth;
    keys_.rows = values_.depth = exponentials_.depth = keys;
    for (together_ = true, chunk_ = std::max(depth, values);;) {
      keys_.depth = std::min(depth, chunk_);
      values_.rows = std::min(values, chunk_);
      const int64_t both = together_ ? keys_.elements() + values_.elements() : std::max(keys_.elements(), values_.elements());
      const int64_t elements = q_.elements() + both + exponentials_.elements();
      if (elements * element_bytes() + (shuffles_ ? 0 : q_.rows * across() * 4) <= bytes) return true;
      if (!together_ && (shuffles_ || chunk_ % (2 * kLeastChunk) != 0)) return false;
      if (!together_) chunk_ /= 2;
      together_ = false;
    }
  }

  int element_bytes() const { return rlxc::bits(u_.operand) / 8; }
  Expr start(const MatrixUnit& u, const FragmentLayout& s, int8_t Step::*axis) const {
    return lane_start(b_, u, s, axis, in_warp_);
  }
  size_t slot(const MatrixUnit& u, int e) const {  // index in own_rows_ of element e of a result
    return static_cast<size_t>(std::ranges::find(own_rows_, u.c.of_element(e).row) - own_rows_.begin());
  }
  int64_t across() const { return u_.n / (u_.c.elements() / static_cast<int64_t>(own_rows_.size())); }  // threads of a row
  int64_t score_units() const { return keys_.rows / u_.n; }
  int64_t result_units() const { return round_up(o_.spec.value_width, r_.n) / r_.n; }

  // Calls f(index in the registers, row slot, column) for the elements of `units` neighbouring tiles.
  template <class F>
  void each_element(const MatrixUnit& u, int64_t units, Expr column, const F& f) {
    const int elements = u.c.elements();
    for (int e = 0; e < elements; ++e)
      for (int64_t v = 0; v < units; ++v) f(v * elements + e, slot(u, e), column + (v * u.n + u.c.of_element(e).column));
  }
  Expr own_row(size_t slot) const { return row_ + int64_t{own_rows_[slot]}; }

  // Combines the values of the thread's rows over the threads that share them. Without shuffles that includes a barrier.
  std::vector<Expr> across_rows(ExprOp combine, const std::vector<Buf>& own) {
    std::vector<Expr> all;
    if (shuffles_) {
      for (const Buf& v : own) all.push_back(combined_across_row(b_, u_, combine, v.get()));
      return all;
    }
    const int vector = std::min(static_cast<int>(across()), m_.load_lanes(rlxc::bits(o_.type) / 8));
    for (size_t r = 0; r < own.size(); ++r) ends_.store(own_row(r) * across() + in_warp_ % across(), own[r].get());
    b_.barrier();
    for (size_t r = 0; r < own.size(); ++r) {
      const Expr first = own_row(r) * across();
      Expr v = ends_.load(first, vector);
      for (int64_t i = vector; i < across(); i += vector) v = make(combine, v, ends_.load(first + i, vector));
      all.push_back(b_.let("all", vector > 1 ? combine_lanes(combine, v) : v));
    }
    return all;
  }

  // Loads positions first .. end of q, k or v, from element `d0` of the head on, into shared memory, zero-filled. Rows are
  // positions (q, k) or head elements (v).
  void fill(AttentionPart p, const SharedRows& to, int64_t d0, Expr first, Expr end) {
    const bool is_v = p == AttentionPart::V, transposed = is_v != to.across;
    const int64_t width = is_v ? o_.spec.value_width : o_.spec.width, positions = is_v ? to.depth : to.rows;
    const int vector = o_.together(p, m_.load_lanes(element_bytes()));
    const int64_t across = (is_v ? to.rows : to.depth) / vector, pieces = positions * across,
                  turns = (pieces + threads_ - 1) / threads_;
    const auto place = [&](Expr position, Expr d) { return is_v ? to.place(d, position) : to.place(position, d); };
    auto piece = [&](Expr e) {
      const Expr i = b_.let("piece", e * threads_ + thread_);
      b_.when(i < pieces, [&] {
        const Expr position = b_.let("position", i / across), d = b_.let("d", i % across * int64_t{vector});
        const Expr v = b_.let(
            "v", cast_to(o_.stored(p, first + position < end && d + d0 < width, first + position, d + d0, vector), u_.operand));
        if (!transposed) return to.data.store(place(position, d), v);
        for (int j = 0; j < vector; ++j) to.data.store(place(position, d + j), rlxc::kernel::lane(v, j));
      });
    };
    turns <= kUnrolled ? b_.unroll("e", turns, piece) : b_.loop("e", turns, piece);
  }

  // sums[first ..] += left[.., left_k ..] * right^T, for the warp's rows of `left` and all rows of `right`.
  void multiply(const SharedRows& left, int64_t left_k, const SharedRows& right, const MatrixUnit& tile, const Buf& sums,
                int64_t first) {
    if (by_unit_) multiply_by_unit(left, right, sums);
    else right.across ? multiply_across(left, right, tile, sums, first) : multiply_along(left, left_k, right, tile, sums, first);
  }

  void multiply_by_unit(const SharedRows& left, const SharedRows& right, const Buf& sums) {
    const Expr left_row = b_.let("left_row", warp_row_ + start(u_, u_.a, &Step::row)),
               left_k = b_.let("left_k", start(u_, u_.a, &Step::column)),
               right_row = b_.let("right_row", start(u_, u_.b, &Step::column)),
               right_k = b_.let("right_k", start(u_, u_.b, &Step::row));
    const int elements = u_.c.elements();
    b_.unroll("step", left.depth / u_.k, [&](Expr step) {
      const Expr k = step * int64_t{u_.k};
      const Expr a = b_.let("a", fragment(b_, u_, u_.a, &Step::column, "part_a", [&](Step at, int run) {
                              return left.data.load(left.place(left_row + int64_t{at.row}, k + left_k + int64_t{at.column}), run);
                            }));
      for (int64_t v = 0; v < right.rows / u_.n; ++v) {
        const Expr b = fragment(b_, u_, u_.b, right.across ? &Step::column : &Step::row, "part_b", [&](Step at, int run) {
          return right.data.load(right.place(right_row + (v * u_.n + at.column), k + right_k + int64_t{at.row}), run);
        });
        sums.store(v * elements, b_.matrix_multiply(u_, a, b, sums.load(v * elements, elements)));
      }
    });
  }

  // Vectors lie along the contraction.
  void multiply_along(const SharedRows& left, int64_t left_k, const SharedRows& right, const MatrixUnit& tile, const Buf& sums,
                      int64_t first) {
    const int vector = std::min(tile.k, m_.load_lanes(element_bytes())), elements = tile.c.elements();
    b_.loop("step", right.depth / vector, [&](Expr step) {
      const Expr k = b_.let("k", step * int64_t{vector});
      std::vector<Expr> a;
      for (size_t r = 0; r < own_rows_.size(); ++r)
        a.push_back(b_.let("a", left.data.load(left.place(own_row(r), k + left_k), vector)));
      for (int64_t v = 0; v < right.rows / tile.n; ++v) {
        std::map<int, Expr> columns;  // columns of the thread
        for (int e = 0; e < elements; ++e) {
          const int column = tile.c.of_element(e).column;
          if (!columns.contains(column))
            columns[column] = b_.let("b", right.data.load(right.place(column_ + (v * tile.n + column), k), vector));
          Expr sum = sums.load(first + v * elements + e);
          for (int j = 0; j < vector; ++j)
            sum = fma(rlxc::kernel::lane(a[slot(tile, e)], j), rlxc::kernel::lane(columns[column], j), sum);
          sums.store(first + v * elements + e, sum);
        }
      }
    });
  }

  // Vectors of the left operand lie along the contraction, those of the right one are the thread's columns.
  void multiply_across(const SharedRows& left, const SharedRows& right, const MatrixUnit& tile, const Buf& sums, int64_t first) {
    const int vector = std::min(tile.k, m_.load_lanes(element_bytes())), elements = tile.c.elements(),
              columns = elements / static_cast<int>(own_rows_.size());
    b_.loop("step", right.depth / vector, [&](Expr step) {
      const Expr k = b_.let("k", step * int64_t{vector});
      std::vector<Expr> a;
      for (size_t r = 0; r < own_rows_.size(); ++r) a.push_back(b_.let("a", left.data.load(left.place(own_row(r), k), vector)));
      for (int j = 0; j < vector; ++j)
        for (int64_t v = 0; v < right.rows / tile.n; ++v)
          for (int c = 0; c < columns; c += vector) {
            const Expr b = b_.let("b", right.data.load(right.place(result_column_ + (v * tile.n + c), k + j), vector));
            for (int e = 0; e < elements; ++e) {
              const int column = tile.c.of_element(e).column;
              if (column < c || column >= c + vector) continue;
              const Expr at = b_.i64(first + v * elements + e);
              sums.store(at, fma(rlxc::kernel::lane(a[slot(tile, e)], j), rlxc::kernel::lane(b, column - c), sums.load(at)));
            }
          }
    });
  }

  void clear(const Buf& sums, int64_t count) {
    const int vector = std::min(u_.c.elements(), m_.load_lanes(rlxc::bits(o_.type) / 8));
    for (int64_t i = 0; i < count; i += vector) sums.store(i, o_.zero(vector));
  }

  // Turns scores into exponentials and rescales the accumulated sums to the new row maxima.
  void exponentials(const Buf& scores, const Buf& results, Expr key0, Expr end) {
    std::vector<Buf> largest;
    for (size_t r = 0; r < own_rows_.size(); ++r) largest.push_back(b_.variable("largest", tops_[r].get()));
    each_element(u_, score_units(), column_, [&](int64_t at, size_t r, Expr column) {
      const Expr query = min(first_ + own_row(r), o_.queries - 1), key = b_.let("key", key0 + column);
      const Expr score = o_.score(scores.load(at), query, min(key, o_.keys - 1));
      const Expr seen = b_.let("score", select(key < end, score, o_.low()));
      scores.store(at, seen);
      largest[r].set(max(largest[r].get(), seen));
    });
    const std::vector<Expr> tops = across_rows(ExprOp::Max, largest);
    std::vector<Expr> base, factor;
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      base.push_back(b_.let("base", select(tops[r] == o_.low(), o_.zero(), tops[r])));
      factor.push_back(b_.let("factor", exp(tops_[r].get() - base[r])));
      tops_[r].set(tops[r]);
      sums_[r].set(sums_[r].get() * factor[r]);
    }
    each_element(u_, score_units(), column_, [&](int64_t at, size_t r, Expr column) {
      const Expr e = b_.let("exponential", exp(scores.load(at) - base[r]));
      sums_[r].set(sums_[r].get() + e);
      exponentials_.data.store(exponentials_.place(own_row(r), column), cast_to(e, u_.operand));
    });
    each_element(r_, result_units(), result_column_,
                 [&](int64_t at, size_t r, Expr) { results.store(at, results.load(at) * factor[r]); });
  }

  void add_block(Expr key0, Expr end, const Buf& scores, const Buf& results) {
    const int64_t depth = q_.depth, width = round_up(o_.spec.value_width, r_.n);
    const auto of_chunk = [](SharedRows rows, int64_t SharedRows::*size, int64_t first, int64_t all) {
      rows.*size = std::min(rows.*size, all - first);
      return rows;
    };
    clear(scores, score_units() * u_.c.elements());
    for (int64_t d = 0; d < depth; d += keys_.depth) {
      const SharedRows keys = of_chunk(keys_, &SharedRows::depth, d, depth);
      fill(AttentionPart::K, keys, d, key0, end);
      if (together_) fill(AttentionPart::V, values_, 0, key0, end);
      b_.barrier();
      multiply(q_, d, keys, u_, scores, 0);
      // Without shuffles, exponentials() has a barrier.
      if (!together_ && (shuffles_ || d + keys_.depth < depth)) b_.barrier();
    }
    exponentials(scores, results, key0, end);
    for (int64_t d = 0; d < width; d += values_.rows) {
      const SharedRows values = of_chunk(values_, &SharedRows::rows, d, width);
      if (!together_) fill(AttentionPart::V, values, d, key0, end);
      b_.barrier();
      multiply(exponentials_, 0, values, r_, results, d / r_.n * r_.c.elements());
      b_.barrier();
    }
  }

  void body() {
    q_.data = b_.shared("queries", u_.operand, q_.elements());
    keys_.data = b_.shared(together_ ? "keys" : "keys_or_values", u_.operand,
                           together_ ? keys_.elements() : std::max(keys_.elements(), values_.elements()));
    values_.data = together_ ? b_.shared("values", u_.operand, values_.elements()) : keys_.data;
    exponentials_.data = b_.shared("exponentials", u_.operand, exponentials_.elements());
    if (!shuffles_) ends_ = b_.shared("ends", o_.type, q_.rows * across());
    const Buf scores = b_.registers("scores", o_.type, score_units() * u_.c.elements()),
              results = b_.registers("results", o_.type, result_units() * r_.c.elements());
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      tops_.push_back(b_.variable("top", o_.low()));
      sums_.push_back(b_.variable("sum", o_.zero()));
    }
    clear(results, result_units() * r_.c.elements());
    fill(AttentionPart::Q, q_, 0, first_, o_.queries);
    const int64_t keys = keys_.rows;
    const Expr end = o_.end(first_, q_.rows), begin = o_.first_block(first_, keys);
    b_.loop("block", ceil_div(end, keys) - begin,
            [&](Expr block) { add_block(b_.let("key0", (begin + block) * keys), end, scores, results); });
    write(results);
  }

  void write(const Buf& results) {
    const std::vector<Expr> sums = across_rows(ExprOp::Add, sums_);
    int run = 1;  // neighbouring columns of a thread
    for (int bit = 0; bit < r_.c.element_bits && r_.c.element[static_cast<size_t>(bit)] == columns(run); ++bit) run *= 2;
    const int wide = o_.together(AttentionPart::Y, std::min(run, m_.load_lanes(rlxc::bits(o_.type) / 8)));
    const int elements = r_.c.elements();
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      const Expr scale = b_.let("scale", select(sums[r] == 0.0, o_.zero(), 1.0 / sums[r]));
      const Expr query = b_.let("query", first_ + own_row(r));
      b_.when(query < o_.queries, [&] {
        for (int e = 0; e < elements; e += wide)
          for (int64_t v = 0; v < result_units(); ++v) {
            const Expr d = result_column_ + (v * r_.n + r_.c.of_element(e).column);
            if (slot(r_, e) != r) continue;
            b_.when(d < o_.spec.value_width,
                    [&] { o_.store_y(query, d, results.load(v * elements + e, wide) * broadcast(scale, wide)); });
          }
      });
    }
  }

  AttentionOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const MatrixUnit &u_, &r_;  // tiles of scores and of results
  const bool by_unit_, shuffles_;
  bool together_ = true;  // keys and values are in shared memory at a time
  int64_t chunk_ = 0;     // elements of a head that are in shared memory at a time
  int64_t warps_ = 1, threads_ = 1;
  SharedRows q_, keys_, values_, exponentials_;
  Buf ends_;                      // what threads that share rows exchange
  std::vector<int8_t> own_rows_;  // a thread's rows of a tile, relative to its first
  std::vector<Buf> tops_, sums_;  // per own row
  Expr first_, thread_, in_warp_, warp_row_, row_, column_, result_column_;
};

}  // namespace

bool attention_on_grid(AttentionOperands& o, const Mapping& m) {
  const AttentionSpec& s = o.spec;
  const MatrixUnit* unit = s.q.dtype == s.k.dtype && s.q.dtype == s.v.dtype ? find_unit(m, s.q.dtype, o.type) : nullptr;
  if (!unit && m.warp > 1 && m.warp < 8) return false;
  const int lanes = m.warp > 1 ? m.warp : kLanes;
  const MatrixUnit scores = lane_tile(lanes, o.type, false), results = lane_tile(lanes, o.type, true);
  GridAttention attention(o, m, unit ? *unit : scores, unit ? *unit : results, unit != nullptr);
  if (!attention.plan()) return false;
  attention.run();
  return true;
}

}  // namespace rlxc::kernel
