// Attention on CPU threads. A task is a block of queries of one head, whose vectors have a query per lane: the queries are
// transposed once, keys and values are read as they are stored. For each block of keys, register tiles of keys by queries give
// the scores; their softmax, online, needs no sum or maximum across lanes; and register tiles of queries by the head's elements
// add the values.
#include <algorithm>
#include <numbers>

#include "kernel/builders/attention_operands.h"
#include "kernel/builders/gemm_operands.h"
#include "kernel/builders/tile_sums.h"
#include "kernel/builders/turn.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kResults = 1 << 15;  // elements of the task's results on the stack

class AttentionTiles {
 public:
  AttentionTiles(AttentionOperands& o, const Mapping& m)
      : o_(o),
        b_(o.b),
        m_(m),
        t_(register_tile(m, o.type)),
        sums_(t_.rows * t_.vectors),
        scaled_(o.type == DType::F32 && o.spec.softcap == 0 && !(o.spec.mask && o.spec.mask_is_bias)) {
    const int64_t widest = std::max(o.spec.width, o.spec.value_width);
    const int64_t most =
        std::clamp<int64_t>(kResults / widest, t_.lanes, std::max<int64_t>(m.blocking.attention_queries, t_.lanes)) / t_.lanes;
    vectors_ = most;
    int64_t queries = 0, keys = 0;
    if (constant(o.queries, &queries)) {
      const int64_t needed = std::max<int64_t>(ceil_div(queries, int64_t{t_.lanes}), 1);
      known_ = true;
      vectors_ = ceil_div(needed, ceil_div(needed, most));
    }
    // All queries of a piece take the keys that the last of them sees: pieces of a mask are narrower. With few registers, a tile
    // of one vector has too few sums for each load.
    const bool narrow = (o.spec.causal && !o.spec.finite) || pieces_skip_keys();
    const int most_wide = narrow ? (m.has_many_registers() ? 1 : 2) : t_.vectors;
    wide_ = static_cast<int>(std::min<int64_t>(vectors_, most_wide));
    columns_ = vectors_ * t_.lanes;
    count_of_task_ = known_ && queries <= columns_ ? queries : columns_;
    keys_ = m.blocking.attention_keys;
    if (constant(o.keys, &keys)) keys_ = ceil_div(std::max<int64_t>(keys, 1), ceil_div(std::max<int64_t>(keys, 1), keys_));
    one_block_ = constant(o.keys, &keys) && keys <= keys_ && !o.hides_keys();
    if (!one_block_) keys_ = ceil_div(keys_, rows_of(wide_)) * rows_of(wide_);
  }

  Tasks tasks() {
    const Expr heads = o_.spec.heads.in(b_.kernel()), blocks = ceil_div(o_.queries, columns_);
    return {o_.spec.batch.in(b_.kernel()) * heads * blocks, columns_ << 14, [=, this](Expr work) {
              first_ = b_.let("query0", work % blocks * columns_);
              o_.at_head(b_.let("batch", work / (blocks * heads)), b_.let("head", work / blocks % heads));
              count_ = b_.let("queries", min(o_.queries - first_, columns_));
              queries_of_task();
            }};
  }

 private:
  // Keys of a tile of `vectors` vectors of queries.
  int rows_of(int vectors) const { return tile_rows(keys_, vectors, sums_, o_.spec.width); }
  // The exponential of scores.
  Expr power(Expr score, Expr base) const { return scaled_ ? exp2(score - base) : exp_of_softmax(score - base, m_); }

  void queries_of_task() {
    const AttentionSpec& s = o_.spec;
    const int64_t scores_rows = keys_ + sums_;
    q_ = b_.registers("q_pieces", o_.type, ceil_div(vectors_, wide_) * wide_ * t_.lanes * s.width);
    scores_ = b_.registers("scores", o_.type, scores_rows * t_.lanes * wide_);
    if (copies_keys()) k_ = b_.registers("k_block", o_.type, keys_ * s.width);
    if (copies_mask()) masks_ = b_.registers("masks", copied_mask_type(), scores_rows * t_.lanes * wide_);
    if (!one_block_) acc_ = b_.registers("acc", o_.type, columns_ * s.value_width);
    tops_ = b_.registers("tops", o_.type, columns_);
    totals_ = b_.registers("sums", o_.type, columns_);
    factors_ = b_.registers("factors", o_.type, t_.lanes * wide_);
    // Columns after the last query repeat it. Each piece has its elements along the head in turn.
    const int64_t piece = wide_ * t_.lanes;
    used_ = known_ ? b_.i64(vectors_) : b_.let("vectors", ceil_div(count_, t_.lanes));
    const auto turn_queries = [&](Expr v, bool whole) {
      const Expr column = v * t_.lanes, at = b_.let("at", column / piece * (piece * s.width) + column % piece);
      turn(
          s.width, is_constant(s.q.strides[3], 1),
          [&](Expr lane, Expr d, int lanes) {
            const Expr query = first_ + column + lane;
            return o_.load_q(whole ? query : min(query, o_.queries - 1), d, lanes);
          },
          [&](Expr lane, Expr d, Expr q) {
            q_.store(at + d * piece + lane, q * (scaled_ ? s.scale * std::numbers::log2e : s.scale));
          });
      if (one_block_) return;
      tops_.store(column, broadcast(o_.low(), t_.lanes));
      totals_.store(column, o_.zero(t_.lanes));
    };
    const bool one_task = known_ && is_constant(o_.queries, count_of_task_);
    const int64_t whole = one_task ? count_of_task_ / t_.lanes : 0;
    if (whole > 0) b_.loop("v", whole, [&](Expr v) { turn_queries(v, true); });
    if (!one_task || whole < vectors_) b_.loop("v", used_ - whole, [&](Expr v) { turn_queries(v + whole, false); });
    if (one_block_) {
      key0_ = b_.i64(0);
      some_ = o_.keys;
      return add_keys();
    }
    b_.loop("i", count_ * s.value_width, [&](Expr i) { acc_.store(i, o_.zero()); });
    const Expr end = o_.end(first_, columns_), begin = o_.first_block(first_, keys_);
    b_.loop("block", ceil_div(end, keys_) - begin, [&](Expr block) {
      key0_ = b_.let("key0", (begin + block) * keys_);
      some_ = b_.let("count", min(end - key0_, keys_));
      if (!o_.hides_keys() || pieces_skip_keys()) return add_keys();
      b_.when(visible_to(b_.i64(0), count_, some_) != 0, [&] { add_keys(); });
    });
    b_.loop("r", count_, [&](Expr r) {
      const Expr scale = b_.let("scale", reciprocal(totals_.load(r)));
      b_.loop("d", s.value_width, [&](Expr d) { o_.store_y(first_ + r, d, acc_.load(r * s.value_width + d) * scale); });
    });
  }

  // Whether each piece of the queries skips keys that are hidden from all of it, or the task does.
  bool pieces_skip_keys() const { return o_.hides_keys() && copies_mask() && !copies_keys(); }
  // Those of `keys` keys of the block that `count` queries from `column` on may see.
  Expr visible_to(Expr column, Expr count, Expr keys) {
    const auto query = [&](Expr r) { return first_ + column + r; };
    return b_.let("visible", o_.visible_keys(count, query, key0_, keys, t_.lanes));
  }

  // The keys of a block, for pieces of the queries.
  void add_keys() {
    if (copies_keys()) copy_keys();
    const int64_t piece = wide_ * t_.lanes, width = o_.spec.width;
    b_.loop("piece", used_ / wide_,
            [&](Expr i) { add_keys_to(i * piece, i * (piece * width), wide_, std::min(count_of_task_, piece)); });
    if (const int64_t rest = vectors_ % wide_; known_ && rest > 0) {
      const int64_t column = (vectors_ - rest) * t_.lanes;
      add_keys_to(b_.i64(column), b_.i64(column * width), static_cast<int>(rest), count_of_task_ - column);
    }
    if (known_ || wide_ == 1) return;
    b_.loop("single", used_ % wide_, [&](Expr i) {
      const Expr last = used_ / wide_ * piece;
      add_keys_to(last + i * t_.lanes, last * width + i * t_.lanes, 1, t_.lanes);
    });
  }

  // Whether keys must be converted.
  bool copies_keys() const { return o_.spec.k.dtype != o_.type; }
  void copy_keys() {
    const int64_t width = o_.spec.width;
    in_pieces(b_, width, 1, is_constant(o_.spec.k.strides[3], 1) ? t_.lanes : 1, [&](Expr d, int, int lanes) {
      b_.loop("j", some_, [&](Expr j) { k_.store(j * width + d, o_.load_k(key0_ + j, d, lanes)); });
    });
  }

  // `vectors` vectors of queries from `column` on, whose elements begin at `q_at`. There are `most` queries, in the last task
  // fewer.
  void add_keys_to(Expr column, Expr q_at, int vectors, int64_t most) {
    const Expr here = b_.let("here", min(count_ - column, vectors * t_.lanes));
    const Expr seen = seen_by(column, vectors * t_.lanes, some_);
    if (!pieces_skip_keys()) return add_keys_to(column, here, q_at, vectors, most, seen);
    const Expr visible = visible_to(column, here, seen);
    b_.when(visible != 0, [&] { add_keys_to(column, here, q_at, vectors, most, visible); });
  }
  void add_keys_to(Expr column, Expr here, Expr q_at, int vectors, int64_t most, Expr seen) {
    std::vector<Buf> tops;
    for (int v = 0; v < vectors; ++v)
      tops.push_back(
          b_.variable("top", one_block_ ? broadcast(o_.low(), t_.lanes) : tops_.load(column + v * t_.lanes, t_.lanes)));
    if (copies_mask()) copy_mask(column, vectors, here, seen);
    const int rows = rows_of(vectors);
    b_.loop("tile", ceil_div(seen, rows), [&](Expr i) { scores(column, q_at, vectors, i * rows, seen, tops); });
    exponentials(column, vectors, seen, tops);
    add_values(column, vectors, here, most, seen);
  }

  // Those of `keys` keys of the block that one of `count` queries from `column` on may see.
  Expr seen_by(Expr column, int64_t count, Expr keys) {
    if (!o_.spec.causal || o_.spec.finite) return keys;
    return b_.let("seen", max(min(keys, o_.end(first_ + column, count) - key0_), 0));
  }

  // Whether the mask must be transposed, which a mask that is the same for all queries need not. Bytes would be moved one by one.
  bool copies_mask() const { return o_.spec.mask && !o_.same_mask_for_queries(); }
  DType copied_mask_type() const { return o_.mask_type() == DType::Bool ? DType::I32 : o_.mask_type(); }
  void copy_mask(Expr column, int vectors, Expr here, Expr seen) {
    const int64_t row = vectors * t_.lanes;
    b_.loop("v", int64_t{vectors}, [&](Expr v) {
      const Expr at = v * t_.lanes;
      turn(
          seen, is_constant(o_.spec.mask->strides[3], 1),
          [&](Expr lane, Expr j, int lanes) {
            return cast_to(o_.mask(first_ + column + min(at + lane, here - 1), key0_ + j, lanes), copied_mask_type());
          },
          [&](Expr lane, Expr j, Expr mask) { masks_.store(j * row + at + lane, mask); });
    });
  }

  // Copies `count` elements of each of a vector's rows: load(row, element, lanes) along a row, store(row, element, value) along
  // the rows from `row` on.
  template <class Load, class Store>
  void turn(const Index& count, bool contiguous, const Load& load, const Store& store) {
    const Expr all = count.in(b_.kernel());
    const bool squares = contiguous && t_.lanes > 1;
    if (squares)
      b_.loop("square", all / t_.lanes, [&](Expr i) {
        const Expr first = b_.let("first", i * t_.lanes);
        std::vector<Expr> rows;
        for (int l = 0; l < t_.lanes; ++l) rows.push_back(b_.let("row", load(b_.i64(l), first, t_.lanes)));
        rows = turned(b_, rows);
        for (int e = 0; e < t_.lanes; ++e) store(b_.i64(0), first + e, rows[static_cast<size_t>(e)]);
      });
    const Expr done = squares ? all / t_.lanes * t_.lanes : b_.i64(0);
    b_.loop("e", all - done, [&](Expr e) {
      b_.loop("lane", int64_t{t_.lanes}, [&](Expr lane) { store(lane, done + e, load(lane, done + e, 1)); });
    });
  }

  // Scores of a tile of keys from row j on. Rows after the last key repeat it, so the maxima hold for all.
  void scores(Expr column, Expr q_at, int vectors, Expr j, Expr seen, std::vector<Buf>& tops) {
    const int64_t width = o_.spec.width, row = vectors * t_.lanes;
    const auto at_row = [&](int i) { return min(j + i, seen - 1); };
    std::vector<Expr> keys;
    for (int i = 0; i < rows_of(vectors); ++i) keys.push_back(b_.let("key", at_row(i)));
    tile_sums(
        b_, {rows_of(vectors), vectors, t_.lanes}, width, [&](int, int) { return o_.zero(t_.lanes); },
        [&](int i, Expr d) {
          const Expr key = keys[static_cast<size_t>(i)];
          return copies_keys() ? k_.load(key * width + d) : o_.load_k(key0_ + key, d);
        },
        [&](Expr d, int v) { return q_.load(q_at + d * (wide_ * t_.lanes) + v * t_.lanes, t_.lanes); },
        [&](int i, int v, Expr sum) {
          const Expr key = keys[static_cast<size_t>(i)], query = first_ + column + v * t_.lanes;
          std::optional<Expr> mask;
          if (copies_mask()) mask = masks_.load(key * row + v * t_.lanes, t_.lanes);
          else if (o_.spec.mask) mask = broadcast(o_.mask(first_, key0_ + key, 1), t_.lanes);
          const Expr score = b_.let("score", o_.score_of_queries(sum, query, key0_ + key, mask));
          scores_.store((j + i) * row + v * t_.lanes, score);
          Buf& top = tops[static_cast<size_t>(v)];
          top.set(select(score > top.get(), score, top.get()));  // a NaN reaches the sum by its exponential
        });
  }

  // Scores become exponentials; factors_ rescale what was summed for the maxima before. Totals of one block become their
  // reciprocals.
  void exponentials(Expr column, int vectors, Expr seen, const std::vector<Buf>& tops) {
    const int64_t row = vectors * t_.lanes;
    std::vector<Expr> bases;
    std::vector<Buf> totals;
    for (int v = 0; v < vectors; ++v) {
      const Expr at = column + v * t_.lanes, top = tops[static_cast<size_t>(v)].get();
      const Expr low = broadcast(o_.low(), t_.lanes);
      bases.push_back(b_.let("base", select(top == low, o_.zero(t_.lanes), top)));
      if (one_block_) {
        totals.push_back(b_.variable("total", o_.zero(t_.lanes)));
        continue;
      }
      const Expr factor = b_.let("factor", power(tops_.load(at, t_.lanes), bases.back()));
      factors_.store(v * t_.lanes, factor);
      tops_.store(at, top);
      totals.push_back(b_.variable("total", totals_.load(at, t_.lanes) * factor));
    }
    b_.loop("j", seen, [&](Expr j) {
      for (int v = 0; v < vectors; ++v) {
        const Expr at = j * row + v * t_.lanes, e = b_.let("e", power(scores_.load(at, t_.lanes), bases[static_cast<size_t>(v)]));
        scores_.store(at, e);
        totals[static_cast<size_t>(v)].set(totals[static_cast<size_t>(v)].get() + e);
      }
    });
    for (int v = 0; v < vectors; ++v) {
      const Expr total = totals[static_cast<size_t>(v)].get();
      totals_.store(column + v * t_.lanes, one_block_ ? reciprocal(total) : total);
    }
  }

  Expr reciprocal(Expr total) const {
    return select(total == o_.zero(total.lanes()), o_.zero(total.lanes()),
                  broadcast(constant(b_.kernel(), o_.type, 1), total.lanes()) / total);
  }

  // Adds the values for the queries of a piece, by tiles. Rows after the last query repeat it.
  void add_values(Expr column, int vectors, Expr here, int64_t most, Expr seen) {
    const bool contiguous = is_constant(o_.spec.v.strides[3], 1) && (!one_block_ || is_constant(o_.spec.y.strides[3], 1));
    in_pieces(b_, o_.spec.value_width, t_.vectors, contiguous ? t_.lanes : 1, [&](Expr d, int wide, int lanes) {
      const int rows = tile_rows(most, wide, sums_, keys_);
      b_.loop("rows", ceil_div(here, rows), [&](Expr i) {
        add_values_to(column, vectors, {rows, wide, lanes}, i * rows, d, here, seen);
      });
    });
  }

  void add_values_to(Expr column, int vectors, const SumTile& tile, Expr r, Expr d, Expr here, Expr seen) {
    const int64_t n = o_.spec.value_width, row = vectors * t_.lanes;
    seen = seen_by(column + r, tile.rows, seen);
    std::vector<Expr> rows, scales;
    for (int i = 0; i < tile.rows; ++i) {
      rows.push_back(b_.let("row", min(r + i, here - 1)));
      if (one_block_) scales.push_back(b_.let("scale", totals_.load(column + rows.back())));
    }
    const auto row_of = [&](int i) { return rows[static_cast<size_t>(i)]; };
    const auto place = [&](int i, int v) { return (column + row_of(i)) * n + d + v * tile.lanes; };
    tile_sums(
        b_, tile, seen,
        [&](int i, int v) {
          return one_block_ ? o_.zero(tile.lanes)
                            : acc_.load(place(i, v), tile.lanes) * broadcast(factors_.load(row_of(i)), tile.lanes);
        },
        [&](int i, Expr j) { return scores_.load(j * row + row_of(i)); },
        [&](Expr j, int v) { return o_.load_v(key0_ + j, d + v * tile.lanes, tile.lanes); },
        [&](int i, int v, Expr sum) {
          if (!one_block_) return acc_.store(place(i, v), sum);
          o_.store_y(first_ + column + row_of(i), d + v * tile.lanes,
                     sum * broadcast(scales[static_cast<size_t>(i)], tile.lanes));
        });
  }

  AttentionOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const RegisterTile t_;
  const int sums_;                  // vectors of sums of a tile
  const bool scaled_;               // whether scores are logarithms to the base of two
  bool known_ = false;              // the number of queries
  int64_t vectors_ = 1;             // of queries of a task
  int wide_ = 1;                    // vectors of a piece of them
  int64_t columns_ = 1, keys_ = 1;  // queries of a task, keys of a block
  int64_t count_of_task_ = 1;       // queries of all tasks but the last
  bool one_block_ = false;          // of all keys: results are stored without an accumulator
  Buf q_, k_, masks_, scores_, acc_, tops_, totals_, factors_;
  Expr first_, count_, used_, key0_, some_;
};

}  // namespace

Tasks attention_tasks_on_tiles(AttentionOperands& o, const Mapping& m) {
  return tasks_of(std::make_shared<AttentionTiles>(o, m));
}

}  // namespace rlxc::kernel
