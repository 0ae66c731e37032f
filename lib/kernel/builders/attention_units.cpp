// Attention on matrix units that read tiles in shared memory (after FlashAttention-3, Shah et al. 2024). A workgroup computes
// queries of a head, each warpgroup the rows of one tile. Blocks of keys and values arrive in shared memory while the block
// before them is multiplied. Scores, weights and results stay in registers: the unit of the second product takes its left operand
// in the layout in which the first one leaves its results.
#include <algorithm>
#include <numbers>

#include "kernel/builders/attention_operands.h"
#include "kernel/builders/matrix_fragment.h"

namespace rlxc::kernel {
namespace {

using AttentionPart = AttentionOperands::Part;

constexpr int64_t kBlocks = 2;    // of keys and values in shared memory
constexpr int kMostGroups = 2;    // warpgroups of a workgroup
constexpr size_t kRowChains = 2;  // independent maxima and sums of a row

class UnitAttention {
 public:
  UnitAttention(AttentionOperands& o, const Mapping& m) : o_(o), b_(o.b), m_(m) {}

  // Chooses the units, and the most queries whose work occupies the device. Returns false if no units fit.
  bool plan() {
    const AttentionSpec& s = o_.spec;
    if (m_.pipeline_bytes == 0 || s.k.dtype != s.q.dtype || s.v.dtype != s.q.dtype || s.scale <= 0) return false;
    const int chunk = lanes_of_read(s.q.dtype);
    for (AttentionPart p : {AttentionPart::Q, AttentionPart::K, AttentionPart::V})
      if (o_.together(p, chunk) < chunk) return false;
    int64_t queries = kLarge, heads = kLarge, batch = 1;
    constant(s.queries, &queries);
    constant(s.heads, &heads);
    constant(s.batch, &batch);
    for (groups_ = kMostGroups; groups_ >= 1; --groups_) {
      const bool busy = groups_ == 1 || batch * heads * ceil_div(queries, 64 * groups_) >= m_.busy_workgroups;
      if (busy && choose_units()) return queries >= su_->m / 2;
    }
    return false;
  }

  void run() {
    const int64_t rows = su_->m * groups_;
    const Expr heads = o_.spec.heads.in(b_.kernel()), blocks = ceil_div(o_.queries, rows);
    threads_ = su_->warp * groups_;
    for_each_workgroup(b_, m_, "work", o_.spec.batch.in(b_.kernel()) * heads * blocks, threads_, [&](Expr work, Expr thread) {
      // Long rows of a causal mask come first.
      const Expr block = o_.spec.causal ? blocks - 1 - work % blocks : work % blocks;
      first_ = b_.let("query0", block * rows);
      o_.at_head(b_.let("batch", work / (blocks * heads)), b_.let("head", work / blocks % heads));
      thread_ = thread;
      group_ = b_.let("warpgroup", thread / int64_t{su_->warp});
      const Expr lane = b_.let("lane", thread % int64_t{su_->warp});
      row_ = b_.let("row", group_ * int64_t{su_->m} + lane_start(b_, *su_, su_->c, &Step::row, lane));
      column_ = b_.let("column", lane_start(b_, *su_, su_->c, &Step::column, lane));
      body();
    });
  }

 private:
  bool choose_units() {
    const AttentionSpec& s = o_.spec;
    in_row_ = kTileBytes * 8 / static_cast<int>(rlxc::bits(s.q.dtype));
    depth_ = ceil_div(s.width, in_row_) * in_row_;
    for (const MatrixUnit& u : m_.tile_units) {
      if (u.later || u.operand != s.q.dtype || u.accumulator != o_.type || u.a_from != Source::AlongK ||
          u.b_from != Source::AlongK || depth_ % u.k)
        continue;
      for (const MatrixUnit& v : m_.tile_units) {
        if (v.operand != u.operand || v.accumulator != o_.type || v.a_from != Source::Lanes || v.b_from != Source::AcrossK ||
            v.warp != u.warp || !(v.a == u.c) || v.n < s.value_width)
          continue;
        const int64_t elements = groups_ * u.m * depth_ + kBlocks * u.n * (depth_ + v.n);
        if (elements * rlxc::bits(u.operand) / 8 > m_.pipeline_bytes) continue;
        if (!su_ || u.k > su_->k || (u.k == su_->k && v.n < ru_->n)) su_ = &u, ru_ = &v;
      }
    }
    return su_;
  }

  // Copies positions first .. end of q, k or v to tiles of `rows` rows.
  void load(AttentionPart p, const Buf& to, Expr base, int64_t all, int64_t rows, Expr first, Expr end) {
    const int64_t width = p == AttentionPart::V ? o_.spec.value_width : o_.spec.width,
                  depth = p == AttentionPart::V ? ru_->n : depth_;
    const int lanes = lanes_of_read(su_->operand);
    const int64_t across = depth / lanes, pieces = all * across;
    b_.unroll("e", ceil_div(pieces, threads_), [&](Expr e) {
      const Expr piece = b_.let("piece", e * threads_ + thread_);
      const auto copy = [&] {
        const Expr row = b_.let("at", piece / across), d = b_.let("d", piece % across * int64_t{lanes});
        to.store_later(base + row / rows * (rows * depth) + tile_place(row % rows, d, rows, in_row_),
                       o_.stored(p, first + row < end && d < width, first + row, d, lanes));
      };
      pieces % threads_ == 0 ? copy() : b_.when(piece < pieces, copy);
    });
  }

  // Calls f(element, its row and column) for a lane's elements of the unit's result.
  template <class F>
  void each_element(const MatrixUnit& u, const F& f) const {
    for (int e = 0; e < u.c.elements(); ++e) f(e, u.c.of_element(e));
  }
  size_t slot(Step at) {
    const auto found = std::ranges::find(own_rows_, at.row);
    if (found != own_rows_.end()) return static_cast<size_t>(found - own_rows_.begin());
    own_rows_.push_back(at.row);
    return own_rows_.size() - 1;
  }

  Expr across_row(ExprOp combine, Expr v) const { return combined_across_row(b_, *su_, combine, v); }

  // Scores that only need a scale stay products. Others are scaled, capped and biased where they are hidden.
  bool bare() const { return o_.spec.softcap <= 0 && !o_.spec.mask_is_bias && !o_.spec.finite; }

  // Hides the scores of a block's keys from the queries that do not see them.
  void hide(const Buf& scores, Expr key0, Expr end) {
    const AttentionSpec& s = o_.spec;
    const auto all = [&] {
      each_element(*su_, [&](int e, Step at) {
        const Expr query = min(first_ + row_ + int64_t{at.row}, o_.queries - 1),
                   key = b_.let("key", key0 + column_ + int64_t{at.column}), place = min(key, o_.keys - 1), dot = scores.load(e);
        scores.store(e, select(key < end, bare() ? o_.visible_score(dot, query, place) : o_.score(dot, query, place), o_.low()));
      });
    };
    if (!bare() || s.mask || s.window) return all();
    const int64_t block = su_->n;
    const Expr ahead = o_.keys - o_.queries, first = b_.let("first", first_ + group_ * int64_t{su_->m});
    if (s.causal) b_.when(key0 + block > o_.keys || key0 + (block - 1) > first + ahead, all);
    else if (!is_multiple(o_.keys, block)) b_.when(key0 + block > o_.keys, all);
  }

  // The larger one, and b if one is NaN: the weight of a NaN is NaN anyway.
  static Expr greater(Expr a, Expr b) { return select(a > b, a, b); }

  // Turns scores into weights and rescales the sums to the new maxima of the rows.
  void weigh(const Buf& scores, const Buf& weights, const Buf& results) {
    // Powers of two are as exact and cheaper. Products are scaled in one step; other scores may be the lowest finite number.
    const Expr unit = constant(b_.kernel(), o_.type, (bare() ? o_.spec.scale : 1) * std::numbers::log2e);
    const auto power = [&](Expr score, Expr base) { return exp2(bare() ? fma(score, unit, -base) : (score - base) * unit); };
    std::vector<Expr> base, factor;
    std::vector<std::vector<Buf>> largest, sums;
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      largest.emplace_back(), sums.emplace_back();
      for (size_t i = 0; i < kRowChains; ++i) {
        largest[r].push_back(b_.variable("largest", i == 0 ? tops_[r].get() : o_.low()));
        sums[r].push_back(b_.variable("part", o_.zero()));
      }
    }
    const auto chain = [](std::vector<Buf>& of, int e) -> Buf& { return of[static_cast<size_t>(e) % of.size()]; };
    each_element(*su_, [&](int e, Step at) {
      Buf& top = chain(largest[slot(at)], e);
      top.set(b_.let("greater", greater(scores.load(e), top.get())));
    });
    const auto all_of = [](ExprOp op, const std::vector<Buf>& of) {
      Expr v = of[0].get();
      for (size_t i = 1; i < of.size(); ++i) v = op == ExprOp::Max ? greater(of[i].get(), v) : v + of[i].get();
      return v;
    };
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      const Expr top = across_row(ExprOp::Max, all_of(ExprOp::Max, largest[r]));
      base.push_back(b_.let("base", select(top == o_.low(), o_.zero(), bare() ? top * unit : top)));
      factor.push_back(b_.let("factor", power(tops_[r].get(), base[r])));
      tops_[r].set(top);
    }
    each_element(*su_, [&](int e, Step at) {
      const size_t r = slot(at);
      const Expr weight = b_.let("weight", power(scores.load(e), base[r]));
      Buf& sum = chain(sums[r], e);
      sum.set(sum.get() + weight);
      scores.store(e, weight);
      if (e % 2) weights.store(e - 1, cast_to(scores.load(e - 1, 2), su_->operand));
    });
    for (size_t r = 0; r < own_rows_.size(); ++r) sums_[r].set(fma(sums_[r].get(), factor[r], all_of(ExprOp::Add, sums[r])));
    each_element(*ru_, [&](int e, Step at) { results.store(e, results.load(e) * factor[slot(at)]); });
  }

  void clear(const Buf& sums, int elements) {
    const int vector = std::min(elements, m_.load_lanes(rlxc::bits(o_.type) / 8));
    for (int e = 0; e < elements; e += vector) sums.store(e, o_.zero(vector));
  }

  void body() {
    const int64_t keys = su_->n, k_elements = keys * depth_, v_elements = keys * ru_->n;
    const int scores_of_lane = su_->c.elements(), results_of_lane = ru_->c.elements();
    const Buf q = b_.shared("queries", su_->operand, groups_ * su_->m * depth_),
              k = b_.shared("keys", su_->operand, kBlocks * k_elements),
              v = b_.shared("values", su_->operand, kBlocks * v_elements),
              scores = b_.registers("scores", o_.type, scores_of_lane),
              weights = b_.registers("weights", su_->operand, scores_of_lane),
              results = b_.registers("results", o_.type, results_of_lane);
    each_element(*su_, [&](int, Step at) { slot(at); });
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      tops_.push_back(b_.variable("top", o_.low()));
      sums_.push_back(b_.variable("sum", o_.zero()));
    }
    clear(results, results_of_lane);
    const int64_t rows = su_->m * groups_;
    const Expr end = o_.end(first_, rows), begin = o_.first_block(first_, keys);
    const auto load_block = [&](Expr block) {
      const Expr stage = b_.let("stage", block % kBlocks), key0 = b_.let("key0", (begin + block) * keys);
      load(AttentionPart::K, k, stage * k_elements, keys, keys, key0, end);
      load(AttentionPart::V, v, stage * v_elements, keys, keys, key0, end);
    };
    load(AttentionPart::Q, q, b_.i64(0), rows, su_->m, first_, o_.queries);
    load_block(b_.i64(0));
    b_.await(0);
    b_.loop("block", ceil_div(end, keys) - begin, [&](Expr block) {
      b_.barrier();
      load_block(b_.let("next", block + 1));
      const Expr stage = b_.let("stage", block % kBlocks), key0 = b_.let("key0", (begin + block) * keys);
      clear(scores, scores_of_lane);
      for (int64_t d = 0; d < depth_; d += su_->k) {
        const Expr left = b_.tile(q, group_ * (su_->m * depth_) + d * su_->m), right = b_.tile(k, stage * k_elements + d * keys);
        scores.store(0, b_.matrix_multiply(*su_, left, right, scores.load(0, scores_of_lane)));
      }
      hide(scores, key0, end);
      weigh(scores, weights, results);
      results.store(0, b_.matrix_multiply(*ru_, weights.load(0, scores_of_lane), b_.tile(v, stage * v_elements),
                                          results.load(0, results_of_lane)));
      b_.await(0);
    });
    write(results);
  }

  void write(const Buf& results) {
    std::vector<Expr> scale;
    for (const Buf& sum : sums_) {
      const Expr all = across_row(ExprOp::Add, sum.get());
      scale.push_back(b_.let("scale", select(all == 0.0, o_.zero(), 1.0 / all)));
    }
    const int wide = ru_->c.element[0].column == 1 ? o_.together(AttentionPart::Y, 2) : 1;
    for (size_t r = 0; r < own_rows_.size(); ++r) {
      const Expr query = b_.let("query", first_ + row_ + int64_t{own_rows_[r]});
      b_.when(query < o_.queries, [&] {
        for (int e = 0; e < ru_->c.elements(); e += wide) {
          const Step at = ru_->c.of_element(e);
          const Expr d = column_ + int64_t{at.column};
          if (slot(at) == r)
            b_.when(d < o_.spec.value_width, [&] { o_.store_y(query, d, results.load(e, wide) * broadcast(scale[r], wide)); });
        }
      });
    }
  }

  AttentionOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const MatrixUnit *su_ = nullptr, *ru_ = nullptr;  // of scores and of results
  int64_t groups_ = 1, threads_ = 1, in_row_ = 1, depth_ = 1;
  std::vector<int8_t> own_rows_;  // a lane's rows, relative to its first
  std::vector<Buf> tops_, sums_;  // per own row
  Expr first_, thread_, group_, row_, column_;
};

}  // namespace

bool attention_on_units(AttentionOperands& o, const Mapping& m) {
  UnitAttention attention(o, m);
  if (!attention.plan()) return false;
  attention.run();
  return true;
}

}  // namespace rlxc::kernel
