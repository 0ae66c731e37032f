// Attention of few queries on CPU threads, as in decoding. Scores are dot products along the head of each key as it is stored. A
// task has the queries of all heads that share keys and values, which are read once.
#include <algorithm>

#include "kernel/builders/attention_operands.h"
#include "kernel/builders/gemm_operands.h"
#include "kernel/builders/tile_sums.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kFew = 8;      // most rows of a task
constexpr int kHeadVectors = 4;  // most vectors of a head per step of a dot product
constexpr int kFewestLanes = 4;

class AttentionRows {
 public:
  AttentionRows(AttentionOperands& o, const Mapping& m) : o_(o), b_(o.b), m_(m), t_(register_tile(m, o.type)), keys_(t_.panel()) {
    int64_t keys = 0, queries = 0;
    fills_block_ = !constant(o.keys, &keys) || keys >= keys_;
    if (!constant(o.queries, &queries) || queries > kFew || !is_constant(o.spec.k.strides[3], 1)) return;
    dot_lanes_ = t_.lanes;
    while (o.spec.width % dot_lanes_ != 0) dot_lanes_ /= 2;
    if (dot_lanes_ < std::min(kFewestLanes, t_.lanes)) return;
    members_ = queries * o.spec.group <= kFew ? o.spec.group : 1;
    rows_ = static_cast<int>(std::clamp<int64_t>(queries * members_, 1, t_.rows));
    block_ = (std::max<int64_t>(queries * members_, 1) + rows_ - 1) / rows_ * rows_;
    fits_ = true;
  }

  bool fits() const { return fits_; }

  Tasks tasks() {
    limit_ = o_.queries * members_;
    const Expr heads = o_.spec.heads.in(b_.kernel()) / members_;
    return {o_.spec.batch.in(b_.kernel()) * heads, block_ << 14, [=, this](Expr work) {
              o_.at_head(b_.let("batch", work / heads), b_.let("head", work % heads * members_));
              tiles_ = b_.let("tiles", ceil_div(limit_, int64_t{rows_}));
              heads_of_task();
            }};
  }

 private:
  void heads_of_task() {
    const AttentionSpec& s = o_.spec;
    q_ = b_.registers("q_block", o_.type, block_ * s.width);
    scores_ = b_.registers("scores", o_.type, block_ * keys_);
    acc_ = b_.registers("acc", o_.type, block_ * s.value_width);
    Buf tops = b_.registers("tops", o_.type, block_), sums = b_.registers("sums", o_.type, block_);
    // The last tile repeats the last query.
    b_.loop("r", tiles_ * rows_, [&](Expr r) {
      const Expr query = at_row(r);
      b_.loop("d", s.width, [&](Expr d) { q_.store(r * s.width + d, o_.load_q(query, d)); });
      b_.loop("d", s.value_width, [&](Expr d) { acc_.store(r * s.value_width + d, o_.zero()); });
      tops.store(r, o_.low());
      sums.store(r, o_.zero());
    });
    const Expr end = o_.end(b_.i64(0), block_), begin = o_.first_block(b_.i64(0), keys_);
    b_.loop("block", ceil_div(end, keys_) - begin, [&](Expr block) {
      key0_ = b_.let("key0", (begin + block) * keys_);
      some_ = b_.let("count", min(end - key0_, keys_));
      const auto keys = [&] {
        b_.loop("tile", tiles_, [&](Expr i) { dots(i * rows_); });
        b_.loop("r", tiles_ * rows_, [&](Expr r) { exponentials(r, tops, sums); });
        b_.loop("tile", tiles_, [&](Expr i) { add_values(i * rows_); });
      };
      if (!o_.hides_keys()) return keys();
      const Expr visible = o_.visible_keys(
          limit_, [&](Expr r) { return at_row(r); }, key0_, some_, t_.lanes);
      b_.when(visible != 0, keys);
    });
    b_.loop("r", limit_, [&](Expr r) {
      const Expr query = at_row(r);
      const Expr sum = sums.load(r), scale = b_.let("scale", select(sum == 0.0, o_.zero(), 1.0 / sum));
      b_.loop("d", s.value_width, [&](Expr d) { o_.store_y(query, d, acc_.load(r * s.value_width + d) * scale); });
    });
  }

  // Selects the head of row `r` of the task and returns its query. Rows after the last repeat it.
  Expr at_row(Expr r) {
    const Expr row = b_.let("query", min(r, limit_ - 1));
    if (members_ == 1) return row;
    o_.at_member(b_.let("member", row / o_.queries));
    return b_.let("position", row % o_.queries);
  }

  void dots(Expr r) {
    const int64_t vectors = o_.spec.width / dot_lanes_;
    int64_t step = std::min<int64_t>(kHeadVectors, vectors);
    while (vectors % step != 0) --step;
    b_.loop("j", some_, [&](Expr j) {
      std::vector<Buf> sums;
      for (int i = 0; i < rows_; ++i) sums.push_back(b_.variable("part", o_.zero(dot_lanes_)));
      b_.loop("c", vectors / step, [&](Expr c) {
        for (int64_t v = 0; v < step; ++v) {
          const Expr d = (c * step + v) * dot_lanes_, key = b_.let("key", o_.load_k(key0_ + j, d, dot_lanes_));
          for (int i = 0; i < rows_; ++i) {
            Buf& sum = sums[static_cast<size_t>(i)];
            sum.set(fma(q_.load((r + i) * o_.spec.width + d, dot_lanes_), key, sum.get()));
          }
        }
      });
      for (int i = 0; i < rows_; ++i) {
        const Expr sum = sums[static_cast<size_t>(i)].get();
        scores_.store((r + i) * keys_ + j, dot_lanes_ > 1 ? reduce_add(sum) : sum);
      }
    });
  }

  // Turns a row's dot products into scores, then exponentials, and rescales the accumulated sums to the new maximum.
  void exponentials(Expr r, const Buf& tops, const Buf& sums) {
    const int64_t n = o_.spec.value_width;
    const Expr query = at_row(r), row = b_.let("row", r * keys_);
    Buf top = b_.variable("top", tops.load(r));
    const auto singly = [&] {
      b_.loop("j", some_, [&](Expr j) {
        const Expr score = b_.let("score", o_.score(scores_.load(row + j), query, key0_ + j));
        scores_.store(row + j, score);
        top.set(max(top.get(), score));
      });
      b_.loop("j", keys_ - some_, [&](Expr j) { scores_.store(row + some_ + j, o_.low()); });
    };
    const auto whole = [&] {
      Buf wide = b_.variable("wide", broadcast(o_.low(), t_.lanes));
      for (int v = 0; v < t_.vectors; ++v) {
        const Expr at = row + v * t_.lanes;
        const Expr score = b_.let("score", o_.score(scores_.load(at, t_.lanes), query, key0_ + v * t_.lanes));
        scores_.store(at, score);
        wide.set(max(wide.get(), score));
      }
      top.set(max(top.get(), t_.lanes > 1 ? reduce_max(wide.get()) : wide.get()));
    };
    o_.score_vectors() && fills_block_ ? b_.when(some_ == keys_, whole, singly) : singly();
    const Expr largest = b_.let("largest", top.get()), base = b_.let("base", select(largest == o_.low(), o_.zero(), largest));
    Buf sum = b_.variable("sum", sums.load(r)), wide = b_.variable("exponentials", o_.zero(t_.lanes));
    b_.when(largest != tops.load(r), [&] {
      const Expr factor = b_.let("factor", exp(tops.load(r) - base));
      sum.set(sum.get() * factor);
      b_.loop("d", n, [&](Expr d) { acc_.store(r * n + d, acc_.load(r * n + d) * factor); });
    });
    tops.store(r, largest);
    for (int v = 0; v < t_.vectors; ++v) {
      const Expr at = row + v * t_.lanes,
                 e = b_.let("e", exp_of_softmax(scores_.load(at, t_.lanes) - broadcast(base, t_.lanes), m_));
      scores_.store(at, e);
      wide.set(wide.get() + e);
    }
    sums.store(r, sum.get() + (t_.lanes > 1 ? reduce_add(wide.get()) : wide.get()));
  }

  // acc[r ..] += exponentials * v
  void add_values(Expr r) {
    const int64_t n = o_.spec.value_width;
    in_pieces(b_, n, t_.vectors, is_constant(o_.spec.v.strides[3], 1) ? t_.lanes : 1, [&](Expr d, int vectors, int lanes) {
      const auto place = [&](int i, int v) { return (r + i) * n + d + v * lanes; };
      tile_sums(
          b_, {rows_, vectors, lanes}, some_, [&](int i, int v) { return acc_.load(place(i, v), lanes); },
          [&](int i, Expr j) { return scores_.load((r + i) * keys_ + j); },
          [&](Expr j, int v) { return o_.load_v(key0_ + j, d + v * lanes, lanes); },
          [&](int i, int v, Expr sum) { acc_.store(place(i, v), sum); });
    });
  }

  AttentionOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const RegisterTile t_;
  const int64_t keys_;       // keys per block
  bool fills_block_ = true;  // whether there may be keys for a block
  bool fits_ = false;
  int rows_ = 1;         // queries per tile
  int64_t block_ = 1;    // rows of a task: queries of its heads
  int64_t members_ = 1;  // heads per task
  int dot_lanes_ = 1;
  Buf q_, scores_, acc_;
  Expr limit_, tiles_, key0_, some_;
};

}  // namespace

std::optional<Tasks> attention_tasks_on_rows(AttentionOperands& o, const Mapping& m) {
  const auto rows = std::make_shared<AttentionRows>(o, m);
  return rows->fits() ? std::optional(tasks_of(rows)) : std::nullopt;
}

}  // namespace rlxc::kernel
