// Attention on CPU threads. A task is a block of queries of one head. For each block of keys, transposed once, the scores and
// then their contribution to the result are register tiles of matmuls, as in gemm_tiles.cpp, with an online softmax between them.
// Few queries do not pay for a transposition: their scores are dot products along the head. Then a task has the queries of all
// heads that share keys and values, which are read once.
#include <algorithm>

#include "kernel/builders/attention_operands.h"
#include "kernel/builders/gemm_operands.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kQueries = 96;       // most queries per task
constexpr int64_t kResults = 1 << 15;  // elements of its results on the stack
constexpr int64_t kFew = 8;            // most queries whose scores are dot products
constexpr int kHeadVectors = 4;        // most vectors of a head per step of a dot product
constexpr int kFewestLanes = 4;

class AttentionTiles {
 public:
  AttentionTiles(AttentionOperands& o, const Mapping& m)
      : o_(o), b_(o.b), m_(m), t_(register_tile(m, o.type)), keys_(t_.panel()) {
    int64_t queries = 0, keys = 0;
    fills_block_ = !constant(o.keys, &keys) || keys >= keys_;
    const bool known = constant(o.queries, &queries);
    if (known && queries <= kFew && is_constant(o.spec.k.strides[3], 1)) {
      dot_lanes_ = t_.lanes;
      while (o.spec.width % dot_lanes_ != 0) dot_lanes_ /= 2;
      if (dot_lanes_ < std::min(kFewestLanes, t_.lanes)) dot_lanes_ = 0;
    }
    if (dot_lanes_ > 0 && queries * o.spec.group <= kFew) members_ = o.spec.group;
    queries *= members_;
    rows_ = known ? static_cast<int>(std::clamp<int64_t>(queries, 1, t_.rows)) : t_.rows;
    const int64_t most = std::clamp<int64_t>(kResults / o.spec.value_width, rows_, kQueries);
    const int64_t blocks = known ? (std::max<int64_t>(queries, 1) + most - 1) / most : 1;
    const int64_t even = known ? (queries + blocks - 1) / blocks : most;
    block_ = std::max<int64_t>((even + rows_ - 1) / rows_, 1) * rows_;
  }

  void run() {
    limit_ = o_.queries * members_;
    const Expr heads = o_.spec.heads.in(b_.kernel()) / members_, blocks = ceil_div(limit_, block_);
    for_each(b_, m_, "work", o_.spec.batch.in(b_.kernel()) * heads * blocks, block_ << 14, [&](Expr work) {
      first_ = b_.let("query0", work % blocks * block_);
      o_.at_head(b_.let("batch", work / (blocks * heads)), b_.let("head", work / blocks % heads * members_));
      count_ = b_.let("queries", min(limit_ - first_, block_));
      tiles_ = b_.let("tiles", ceil_div(count_, int64_t{rows_}));
      block();
    });
  }

 private:
  void block() {
    const AttentionSpec& s = o_.spec;
    q_ = b_.registers("q_block", o_.type, block_ * s.width);
    if (dot_lanes_ == 0) k_ = b_.registers("k_panel", o_.type, s.width * keys_);
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
    const Expr end = o_.end(first_, block_), begin = o_.first_block(first_, keys_);
    b_.loop("block", ceil_div(end, keys_) - begin, [&](Expr block) {
      key0_ = b_.let("key0", (begin + block) * keys_);
      some_ = b_.let("count", min(end - key0_, keys_));
      auto keys = [&] {
        if (dot_lanes_ == 0) pack_keys();
        b_.loop("tile", tiles_, [&](Expr i) { dot_lanes_ > 0 ? dots_along_head(i * rows_) : dots(i * rows_); });
        b_.loop("r", tiles_ * rows_, [&](Expr r) { exponentials(r, tops, sums); });
        b_.loop("tile", tiles_, [&](Expr i) { add_values(i * rows_); });
      };
      if (!o_.hides_keys()) return keys();
      b_.when(some_visible(), keys);
    });
    b_.loop("r", count_, [&](Expr r) {
      const Expr query = at_row(r);
      const Expr sum = sums.load(r), scale = b_.let("scale", select(sum == 0.0, o_.zero(), 1.0 / sum));
      b_.loop("d", s.value_width, [&](Expr d) { o_.store_y(query, d, acc_.load(r * s.value_width + d) * scale); });
    });
  }

  // Selects the head of row `r` of the task and returns its query. Rows after the last repeat it.
  Expr at_row(Expr r) {
    const Expr row = b_.let("query", min(first_ + r, limit_ - 1));
    if (members_ == 1) return row;
    o_.at_member(b_.let("member", row / o_.queries));
    return b_.let("position", row % o_.queries);
  }

  // Returns whether the mask shows some query of the task a key of the block.
  Expr some_visible() {
    Buf seen = b_.variable("seen", constant_int(b_.kernel(), DType::I32, 0));
    auto vectors = [&] {
      Buf wide = b_.variable("wide", broadcast(constant_int(b_.kernel(), DType::I32, 0), t_.lanes));
      b_.loop("r", count_, [&](Expr r) {
        const Expr query = at_row(r);
        for (int v = 0; v < t_.vectors; ++v)
          wide.set(wide.get() | cast_to(o_.shown(query, key0_ + v * t_.lanes, t_.lanes), DType::I32));
      });
      seen.set(t_.lanes > 1 ? reduce_max(wide.get()) : wide.get());
    };
    auto singly = [&] {
      b_.loop("r", count_, [&](Expr r) {
        const Expr query = at_row(r);
        b_.loop("j", some_, [&](Expr j) { seen.set(seen.get() | cast_to(o_.shown(query, key0_ + j, 1), DType::I32)); });
      });
    };
    o_.score_vectors() && fills_block_ ? b_.when(some_ == keys_, vectors, singly) : singly();
    return seen.get() != 0;
  }

  // Packs keys: element d of key j at d * keys + j.
  void pack_keys() {
    const int64_t width = o_.spec.width;
    b_.when(some_ < keys_, [&] { b_.loop("i", width * t_.vectors, [&](Expr i) { k_.store(i * t_.lanes, o_.zero(t_.lanes)); }); });
    if (is_constant(o_.spec.k.strides[2], 1) && fills_block_) {
      auto whole = [&] {
        b_.loop("d", width, [&](Expr d) {
          for (int v = 0; v < t_.vectors; ++v) k_.store(d * keys_ + v * t_.lanes, o_.load_k(key0_ + v * t_.lanes, d, t_.lanes));
        });
      };
      return b_.when(some_ == keys_, whole, [&] { pack_singly(); });
    }
    pack_singly();
  }
  void pack_singly() {
    b_.loop("j", some_,
            [&](Expr j) { b_.loop("d", o_.spec.width, [&](Expr d) { k_.store(d * keys_ + j, o_.load_k(key0_ + j, d)); }); });
  }

  // A register tile of sums: starts from `start`, accumulates `depth` steps, calls `store`.
  template <class Start, class Left, class Right, class Store>
  void tile(int vectors, int lanes, const Index& depth, const Start& start, const Left& left, const Right& right,
            const Store& store) {
    std::vector<Buf> sums;
    for (int i = 0; i < rows_; ++i)
      for (int v = 0; v < vectors; ++v) sums.push_back(b_.variable("part", start(i, v)));
    b_.loop("p", depth, [&](Expr p) {
      std::vector<Expr> values;
      for (int v = 0; v < vectors; ++v) values.push_back(b_.let("value", right(p, v)));
      for (int i = 0; i < rows_; ++i) {
        const Expr x = broadcast(b_.let("x", left(i, p)), lanes);
        for (int v = 0; v < vectors; ++v) {
          Buf& sum = sums[static_cast<size_t>(i * vectors + v)];
          sum.set(fma(x, values[static_cast<size_t>(v)], sum.get()));
        }
      }
    });
    for (int i = 0; i < rows_; ++i)
      for (int v = 0; v < vectors; ++v) store(i, v, sums[static_cast<size_t>(i * vectors + v)].get());
  }

  void dots(Expr r) {
    const int64_t width = o_.spec.width;
    tile(
        t_.vectors, t_.lanes, width, [&](int, int) { return o_.zero(t_.lanes); },
        [&](int i, Expr d) { return q_.load((r + i) * width + d); },
        [&](Expr d, int v) { return k_.load(d * keys_ + v * t_.lanes, t_.lanes); },
        [&](int i, int v, Expr sum) { scores_.store((r + i) * keys_ + v * t_.lanes, sum); });
  }

  // The same for few queries: sums along the head of each key.
  void dots_along_head(Expr r) {
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
    auto singly = [&] {
      b_.loop("j", some_, [&](Expr j) {
        const Expr score = b_.let("score", o_.score(scores_.load(row + j), query, key0_ + j));
        scores_.store(row + j, score);
        top.set(max(top.get(), score));
      });
      b_.loop("j", keys_ - some_, [&](Expr j) { scores_.store(row + some_ + j, o_.low()); });
    };
    auto whole = [&] {
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
      const Expr at = row + v * t_.lanes, e = b_.let("e", exp(scores_.load(at, t_.lanes) - broadcast(base, t_.lanes)));
      scores_.store(at, e);
      wide.set(wide.get() + e);
    }
    sums.store(r, sum.get() + (t_.lanes > 1 ? reduce_add(wide.get()) : wide.get()));
  }

  // acc[r ..] += scores * v, for a few vectors of v's columns at a time.
  void add_values(Expr r) {
    const int64_t n = o_.spec.value_width;
    int lanes = is_constant(o_.spec.v.strides[3], 1) ? t_.lanes : 1;
    while (lanes > n) lanes /= 2;
    auto piece = [&](Expr d, int vectors, int w) {
      auto place = [&](int i, int v) { return (r + i) * n + d + v * w; };
      tile(
          vectors, w, some_, [&](int i, int v) { return acc_.load(place(i, v), w); },
          [&](int i, Expr j) { return scores_.load((r + i) * keys_ + j); },
          [&](Expr j, int v) { return o_.load_v(key0_ + j, d + v * w, w); },
          [&](int i, int v, Expr sum) { acc_.store(place(i, v), sum); });
    };
    const int64_t vectors = n / lanes, wide = std::min<int64_t>(t_.vectors, vectors), pieces = vectors / wide;
    b_.loop("c", pieces, [&](Expr c) { piece(c * (wide * lanes), static_cast<int>(wide), lanes); });
    if (const int64_t rest = vectors - pieces * wide) piece(b_.i64(pieces * wide * lanes), static_cast<int>(rest), lanes);
    if (vectors * lanes < n) b_.loop("d", n - vectors * lanes, [&](Expr d) { piece(d + vectors * lanes, 1, 1); });
  }

  AttentionOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const RegisterTile t_;
  const int64_t keys_;       // keys per block
  bool fills_block_ = true;  // whether there may be keys for a block
  int rows_ = 1;             // queries per tile
  int64_t block_ = 1;        // queries per task
  int64_t members_ = 1;      // heads per task
  int dot_lanes_ = 0;        // of sums along the head; 0: keys are packed
  Buf q_, k_, scores_, acc_;
  Expr limit_, first_, count_, tiles_, key0_, some_;
};

}  // namespace

void attention_on_tiles(AttentionOperands& o, const Mapping& m) { AttentionTiles(o, m).run(); }

}  // namespace rlxc::kernel
