// Attention on workgroups (after FlashAttention-2, Dao 2023). A workgroup computes a block of queries of a head; each warp
// computes the rows of one tile of scores. Blocks of keys and values go through shared memory. Scores, result rows and the
// running maximum and sum stay in registers. f16 and bf16 use matrix units if available, else each thread computes its elements.
// Exponentials go through shared memory, because a unit's result layout differs from its left operand's.
#include <algorithm>
#include <map>

#include "kernel/builders/attention_operands.h"
#include "kernel/builders/matrix_fragment.h"

namespace rlxc::kernel {
namespace {

using AttentionPart = AttentionOperands::Part;

constexpr int64_t kWarps = 4, kMostKeys = 64;  // at most: warps per workgroup, keys per block
constexpr int64_t kWidest = 256;               // widest head whose results fit in registers
constexpr int64_t kGapBytes = 16;              // padding between rows in shared memory, against bank conflicts
constexpr int64_t kUnrolled = 8;

// Rows of a matmul operand in shared memory, with `depth` elements along the contraction.
struct SharedRows {
  Buf data;
  int64_t rows = 0, depth = 0, gap = 0;
  int64_t pitch() const { return depth + gap; }
  int64_t elements() const { return rows * pitch(); }
  Expr place(Expr row, Expr k) const { return row * pitch() + k; }
};

int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

// The layout of a tile that a warp computes without a matrix unit: eight threads across, each with 4 x 2 elements.
MatrixUnit lane_tile(int warp, DType t) {
  const int down = warp / 8;
  FragmentLayout c = {{columns(1), columns(2), columns(4)}, {columns(8), rows(down), rows(2 * down)}, 3};
  for (int bit = 3; 1 << bit < warp; ++bit) c.lane[static_cast<size_t>(bit)] = rows(1 << (bit - 3));
  return {4 * down, 16, 4, warp, t, t, {}, {}, c};
}

class GridAttention {
 public:
  GridAttention(AttentionOperands& o, const Mapping& m, const MatrixUnit& tile, bool by_unit)
      : o_(o), b_(o.b), m_(m), u_(tile), by_unit_(by_unit) {
    for (int e = 0; e < u_.c.elements(); ++e)
      if (!std::ranges::count(own_rows_, u_.c.of_element(e).row)) own_rows_.push_back(u_.c.of_element(e).row);
    for (SharedRows* rows : {&q_, &keys_, &values_, &exponentials_}) rows->gap = kGapBytes / element_bytes();
  }

  // Chooses the most warps and keys that fit in shared memory. Returns false if none fit.
  bool plan() {
    if (o_.spec.width > kWidest || o_.spec.value_width > kWidest) return false;
    const int64_t least = std::max(u_.k, u_.n);
    for (warps_ = std::clamp<int64_t>(m_.max_workgroup_size / u_.warp, 1, kWarps); warps_ >= 1; warps_ /= 2)
      for (int64_t keys = o_.spec.value_width > 64 ? kMostKeys / 2 : kMostKeys; keys >= least; keys /= 2) {
        q_.rows = exponentials_.rows = warps_ * u_.m;
        keys_.rows = keys;
        values_.rows = round_up(o_.spec.value_width, u_.n);
        q_.depth = keys_.depth = round_up(o_.spec.width, u_.k);
        values_.depth = exponentials_.depth = keys;
        const int64_t elements = q_.elements() + keys_.elements() + values_.elements() + exponentials_.elements();
        if (elements * element_bytes() <= m_.shared_bytes) return true;
      }
    return false;
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
      row_ = b_.let("row", warp_row_ + start(u_.c, &Step::row));
      column_ = b_.let("column", start(u_.c, &Step::column));
      body();
    });
  }

 private:
  int element_bytes() const { return rlxc::bits(u_.operand) / 8; }
  Expr start(const FragmentLayout& s, int8_t Step::*axis) const { return lane_start(b_, u_, s, axis, in_warp_); }
  size_t slot(int e) const {  // index in own_rows_ of element e of a result
    return static_cast<size_t>(std::ranges::find(own_rows_, u_.c.of_element(e).row) - own_rows_.begin());
  }
  int64_t score_units() const { return keys_.rows / u_.n; }
  int64_t result_units() const { return values_.rows / u_.n; }

  // Calls f(index in the result registers, row slot, column) for the elements of `units` neighbouring result tiles.
  template <class F>
  void each_element(int64_t units, const F& f) {
    const int elements = u_.c.elements();
    for (int e = 0; e < elements; ++e)
      for (int64_t v = 0; v < units; ++v) f(v * elements + e, slot(e), column_ + (v * u_.n + u_.c.of_element(e).column));
  }
  Expr own_row(size_t slot) const { return row_ + int64_t{own_rows_[slot]}; }

  Expr across_row(ExprOp combine, Expr v) const { return combined_across_row(b_, u_, combine, v); }

  // Loads positions first .. end of q, k or v into shared memory, zero-filled. Rows are positions (q, k) or head elements (v).
  void fill(AttentionPart p, const SharedRows& to, Expr first, Expr end) {
    const bool turned = p == AttentionPart::V;
    const int64_t width = turned ? o_.spec.value_width : o_.spec.width, positions = turned ? to.depth : to.rows;
    const int vector = o_.together(p, m_.load_lanes(element_bytes()));
    const int64_t across = (turned ? to.rows : to.depth) / vector, pieces = positions * across,
                  turns = (pieces + threads_ - 1) / threads_;
    auto piece = [&](Expr e) {
      const Expr i = b_.let("piece", e * threads_ + thread_);
      b_.when(i < pieces, [&] {
        const Expr position = b_.let("position", i / across), d = b_.let("d", i % across * int64_t{vector});
        const Expr v =
            b_.let("v", cast_to(o_.stored(p, first + position < end && d < width, first + position, d, vector), u_.operand));
        if (!turned) return to.data.store(to.place(position, d), v);
        for (int j = 0; j < vector; ++j) to.data.store(to.place(d + j, position), rlxc::kernel::lane(v, j));
      });
    };
    turns <= kUnrolled ? b_.unroll("e", turns, piece) : b_.loop("e", turns, piece);
  }

  // sums += left * right^T, for the warp's rows of `left` and all rows of `right`.
  void multiply(const SharedRows& left, const SharedRows& right, const Buf& sums) {
    by_unit_ ? multiply_by_unit(left, right, sums) : multiply_by_lanes(left, right, sums);
  }

  void multiply_by_unit(const SharedRows& left, const SharedRows& right, const Buf& sums) {
    const Expr left_row = b_.let("left_row", warp_row_ + start(u_.a, &Step::row)),
               left_k = b_.let("left_k", start(u_.a, &Step::column)), right_row = b_.let("right_row", start(u_.b, &Step::column)),
               right_k = b_.let("right_k", start(u_.b, &Step::row));
    const int elements = u_.c.elements();
    b_.unroll("step", left.depth / u_.k, [&](Expr step) {
      const Expr k = step * int64_t{u_.k};
      const Expr a = b_.let("a", fragment(b_, u_, u_.a, &Step::column, "part_a", [&](Step at, int run) {
                              return left.data.load(left.place(left_row + int64_t{at.row}, k + left_k + int64_t{at.column}), run);
                            }));
      for (int64_t v = 0; v < right.rows / u_.n; ++v) {
        const Expr b = fragment(b_, u_, u_.b, &Step::row, "part_b", [&](Step at, int run) {
          return right.data.load(right.place(right_row + (v * u_.n + at.column), k + right_k + int64_t{at.row}), run);
        });
        sums.store(v * elements, b_.matrix_multiply(u_, a, b, sums.load(v * elements, elements)));
      }
    });
  }

  void multiply_by_lanes(const SharedRows& left, const SharedRows& right, const Buf& sums) {
    const int vector = std::min(u_.k, m_.load_lanes(element_bytes())), elements = u_.c.elements();
    b_.loop("step", left.depth / vector, [&](Expr step) {
      const Expr k = b_.let("k", step * int64_t{vector});
      std::vector<Expr> a;
      for (size_t r = 0; r < own_rows_.size(); ++r) a.push_back(b_.let("a", left.data.load(left.place(own_row(r), k), vector)));
      for (int64_t v = 0; v < right.rows / u_.n; ++v) {
        std::map<int, Expr> columns;  // columns of the thread
        for (int e = 0; e < elements; ++e) {
          const int column = u_.c.of_element(e).column;
          if (!columns.contains(column))
            columns[column] = b_.let("b", right.data.load(right.place(column_ + (v * u_.n + column), k), vector));
          Expr sum = sums.load(v * elements + e);
          for (int j = 0; j < vector; ++j)
            sum = fma(rlxc::kernel::lane(a[slot(e)], j), rlxc::kernel::lane(columns[column], j), sum);
          sums.store(v * elements + e, sum);
        }
      }
    });
  }

  void clear(const Buf& sums, int64_t units) {
    const int vector = std::min(u_.c.elements(), m_.load_lanes(rlxc::bits(o_.type) / 8));
    for (int64_t i = 0; i < units * u_.c.elements(); i += vector) sums.store(i, o_.zero(vector));
  }

  // Turns scores into exponentials and rescales the accumulated sums to the new row maxima.
  void exponentials(const Buf& scores, const Buf& results, Expr key0, Expr end) {
    std::vector<Buf> largest;
    for (size_t r = 0; r < own_rows_.size(); ++r) largest.push_back(b_.variable("largest", tops_[r].get()));
    each_element(score_units(), [&](int64_t at, size_t r, Expr column) {
      const Expr query = min(first_ + own_row(r), o_.queries - 1), key = b_.let("key", key0 + column);
      const Expr score = o_.score(scores.load(at), query, min(key, o_.keys - 1));
      const Expr seen = b_.let("score", select(key < end, score, o_.low()));
      scores.store(at, seen);
      largest[r].set(max(largest[r].get(), seen));
    });
    std::vector<Expr> base, factor;
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      const Expr top = across_row(ExprOp::Max, largest[r].get());
      base.push_back(b_.let("base", select(top == o_.low(), o_.zero(), top)));
      factor.push_back(b_.let("factor", exp(tops_[r].get() - base[r])));
      tops_[r].set(top);
      sums_[r].set(sums_[r].get() * factor[r]);
    }
    each_element(score_units(), [&](int64_t at, size_t r, Expr column) {
      const Expr e = b_.let("exponential", exp(scores.load(at) - base[r]));
      sums_[r].set(sums_[r].get() + e);
      exponentials_.data.store(exponentials_.place(own_row(r), column), cast_to(e, u_.operand));
    });
    each_element(result_units(), [&](int64_t at, size_t r, Expr) { results.store(at, results.load(at) * factor[r]); });
  }

  void body() {
    for (auto [rows, name] :
         {std::pair{&q_, "queries"}, {&keys_, "keys"}, {&values_, "values"}, {&exponentials_, "exponentials"}})
      rows->data = b_.shared(name, u_.operand, rows->elements());
    const int elements = u_.c.elements();
    const Buf scores = b_.registers("scores", o_.type, score_units() * elements),
              results = b_.registers("results", o_.type, result_units() * elements);
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      tops_.push_back(b_.variable("top", o_.low()));
      sums_.push_back(b_.variable("sum", o_.zero()));
    }
    clear(results, result_units());
    fill(AttentionPart::Q, q_, first_, o_.queries);
    const int64_t keys = keys_.rows;
    const Expr end = o_.end(first_, q_.rows), begin = o_.first_block(first_, keys);
    b_.loop("block", ceil_div(end, keys) - begin, [&](Expr block) {
      const Expr key0 = b_.let("key0", (begin + block) * keys);
      fill(AttentionPart::K, keys_, key0, end);
      fill(AttentionPart::V, values_, key0, end);
      b_.barrier();
      clear(scores, score_units());
      multiply(q_, keys_, scores);
      exponentials(scores, results, key0, end);
      b_.barrier();
      multiply(exponentials_, values_, results);
      b_.barrier();
    });
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      const Expr sum = across_row(ExprOp::Add, sums_[r].get()), scale = b_.let("scale", select(sum == 0.0, o_.zero(), 1.0 / sum));
      const Expr query = b_.let("query", first_ + own_row(r));
      b_.when(query < o_.queries, [&] {
        each_element(result_units(), [&](int64_t at, size_t of, Expr d) {
          if (of == r) b_.when(d < o_.spec.value_width, [&] { o_.store_y(query, d, results.load(at) * scale); });
        });
      });
    }
  }

  AttentionOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const MatrixUnit& u_;
  const bool by_unit_;
  int64_t warps_ = 1, threads_ = 1;
  SharedRows q_, keys_, values_, exponentials_;
  std::vector<int8_t> own_rows_;  // a thread's rows of a result tile, relative to its first
  std::vector<Buf> tops_, sums_;  // per own row
  Expr first_, thread_, in_warp_, warp_row_, row_, column_;
};

}  // namespace

bool attention_on_grid(AttentionOperands& o, const Mapping& m) {
  const AttentionSpec& s = o.spec;
  const MatrixUnit* unit = s.q.dtype == s.k.dtype && s.q.dtype == s.v.dtype ? find_unit(m, s.q.dtype, o.type) : nullptr;
  if (!unit && m.warp < 8) return false;
  const MatrixUnit tile = lane_tile(m.warp, o.type);
  GridAttention attention(o, m, unit ? *unit : tile, unit != nullptr);
  if (!attention.plan()) return false;
  attention.run();
  return true;
}

}  // namespace rlxc::kernel
