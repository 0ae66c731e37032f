// Attention of few queries on a grid, as in decoding (after Flash-Decoding, Dao et al. 2023). Its time is that of reading keys
// and values, so the rows of a workgroup are the queries of all heads that share them. Sets of neighbouring threads
// read a key each, along the head. Heads may be too few for the device: then workgroups split the keys of a head, and a second
// kernel adds the parts.
#include <algorithm>
#include <bit>

#include "kernel/builders/attention.h"
#include "kernel/builders/attention_operands.h"
#include "kernel/builders/matrix_fragment.h"
#include "kernel/builders/reduce.h"
#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {
namespace {

using AttentionPart = AttentionOperands::Part;

constexpr int64_t kDecodedQueries = 4, kDecodingThreads = 128, kThreadsWithoutShuffles = 64;
constexpr int64_t kKeysOfBlock = 64;
constexpr int64_t kMostOfRows = 64;   // elements of queries, or of results, that a thread keeps
constexpr int64_t kLongHead = 32;     // threads along a head, at most
constexpr int64_t kKeysOfPart = 128;  // of a workgroup, at least, where several share a head
constexpr int64_t kPartsOfBusy = 4;   // workgroups for each that occupies a device
constexpr int kReadsAhead = 8;        // of keys or values by a thread

// Threads along a head. Each reads `lanes` elements at a time, in several pieces of long heads.
struct Across {
  int lanes = 1;
  int64_t threads = 1, pieces = 1;
  int64_t elements() const { return lanes * pieces; }
};

Across across_head(int64_t width, int lanes, const Mapping& m) {
  const int64_t most = m.warp > 1 ? std::min<int64_t>(m.warp, kLongHead) : kLongHead;
  Across a{lanes};
  const int64_t least = m.warp > 1 ? kDecodingThreads / kKeysOfBlock : 1;  // no more sets of threads than keys
  a.threads =
      std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(width, lanes)))), least, most);
  a.pieces = ceil_div(width, lanes * a.threads);
  return a;
}

class FewQueries {
 public:
  // `parts`: how many workgroups share the keys of a head. With several, y has the sums of each part, then its maxima and sums of
  // weights (attention_part_elements).
  FewQueries(AttentionOperands& o, const Mapping& m, int64_t parts) : o_(o), b_(o.b), m_(m), parts_(parts) {
    const AttentionSpec& s = o.spec;
    queries_ = constant_value(s.queries);
    const auto lanes = [&](AttentionPart p, const Operand& of) { return o.together(p, m.load_lanes(rlxc::bits(of.dtype) / 8)); };
    k_ = across_head(s.width, lanes(AttentionPart::K, s.k), m);
    v_ = across_head(s.value_width, lanes(AttentionPart::V, s.v), m);
    const int64_t most = std::max<int64_t>(1, kMostOfRows / std::max(k_.elements(), v_.elements()));
    row_blocks_ = ceil_div(queries_ * s.group, most);
    rows_ = ceil_div(queries_ * s.group, row_blocks_);
    threads_ = std::min<int64_t>(m.warp > 1 ? kDecodingThreads : kThreadsWithoutShuffles,
                                 static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(m.max_workgroup_size))));
    // Threads that share the scores of a row.
    of_row_ = std::min(threads_ / static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows_))), kKeysOfBlock);
    if (m.warp > 1) of_row_ = std::min<int64_t>(of_row_, m.warp);
  }

  void run() {
    const AttentionSpec& s = o_.spec;
    const Expr kv_heads = s.heads.in(b_.kernel()) / s.group;
    for_each_workgroup(b_, m_, "work", s.batch.in(b_.kernel()) * kv_heads * (row_blocks_ * parts_), threads_,
                       [&](Expr work, Expr thread) {
                         const Expr kv_head = b_.let("head_of_keys", work / (row_blocks_ * parts_));
                         thread_ = thread;
                         part_ = b_.let("part", work % parts_);
                         row0_ = b_.let("row0", work / parts_ % row_blocks_ * rows_);
                         o_.at_head(b_.let("batch", kv_head / kv_heads), b_.let("head", kv_head % kv_heads * s.group));
                         body();
                       });
  }

 private:
  // Selects the head of a row of the workgroup, and returns its query. Rows beyond the last are that one.
  Expr select_row(Expr row) {
    const Expr at = min(row0_ + row, o_.spec.group * queries_ - 1);
    o_.at_member(at / queries_);
    return at % queries_;
  }

  // Combines v over aligned sets of `count` threads; all threads of a set have the result.
  Expr across_threads(ExprOp combine, Expr v, int64_t count) {
    if (m_.warp > 1) return combine_shuffled(b_, "all", combine, v, count);
    if (count == 1) return v;
    if (!exchange_.builder()) exchange_ = b_.shared("exchange", o_.type, threads_);
    exchange_.store(thread_, v);
    b_.barrier();
    const Buf all = b_.variable("all", v);
    const Expr first = thread_ / count * count;
    b_.loop("other", count - 1,
            [&](Expr i) { all.set(make(combine, all.get(), exchange_.load(first + (thread_ % count + i + 1) % count))); });
    const Expr result = b_.let("result", all.get());
    b_.barrier();
    return result;
  }

  Expr d_of(const Across& a, int64_t piece) const { return thread_ % a.threads * int64_t{a.lanes} + piece * a.threads * a.lanes; }

  // Elements of a key, a value or a query that this thread reads; 0 beyond the head.
  Expr read(AttentionPart p, const Across& a, Expr position, int64_t piece) {
    const int64_t width = p == AttentionPart::V ? o_.spec.value_width : o_.spec.width;
    const Expr d = d_of(a, piece);
    const Expr exists = a.threads * a.elements() == width ? constant_int(b_.kernel(), DType::Bool, 1) : d < width;
    return cast_to(o_.stored(p, exists, position, d, a.lanes), o_.type);
  }

  // Calls f(key, element of each piece) for the keys of a block that this thread reads, several at once.
  void each_key(AttentionPart p, const Across& a, Expr key0, const std::function<void(Expr, const std::vector<Expr>&)>& f) {
    const int64_t sets = threads_ / a.threads, turns = ceil_div(kKeysOfBlock, sets);
    const int64_t ahead = std::min(turns, m_.warp > 1 ? std::max<int64_t>(1, kReadsAhead / a.pieces) : 1);
    b_.loop("turn", turns / ahead, [&](Expr turn) {
      const Buf values = b_.registers("values", Type{o_.type, a.lanes}, ahead * a.pieces);
      const auto key_of = [&](Expr i) { return b_.let("j", (turn * ahead + i) * sets + thread_ / a.threads); };
      b_.unroll("i", ahead, [&](Expr i) {
        const Expr key = b_.let("key", min(key0 + key_of(i), o_.keys - 1));
        for (int64_t piece = 0; piece < a.pieces; ++piece) values.store(i * a.pieces + piece, read(p, a, key, piece));
      });
      b_.unroll("i", ahead, [&](Expr i) {
        std::vector<Expr> pieces;
        for (int64_t piece = 0; piece < a.pieces; ++piece) pieces.push_back(b_.let("value", values.load(i * a.pieces + piece)));
        f(key_of(i), pieces);
      });
    });
  }

  // Stores the dot products of a block's keys and all rows.
  void dots(Expr key0) {
    if (m_.warp == 1) return dots_of_threads(key0);
    each_key(AttentionPart::K, k_, key0, [&](Expr j, const std::vector<Expr>& key) {
      for (int64_t r = 0; r < rows_; ++r) {
        Expr sum = o_.zero(k_.lanes);
        for (size_t piece = 0; piece < key.size(); ++piece)
          sum = fma(queries_of_rows_[static_cast<size_t>(r) * key.size() + piece].get(), key[piece], sum);
        const Expr dot = across_threads(ExprOp::Add, b_.let("dot", k_.lanes > 1 ? reduce_add(sum) : sum), k_.threads);
        b_.when(thread_ % k_.threads == 0, [&] { scores_.store(r * kKeysOfBlock + j, dot); });
      }
    });
  }

  // The same without shuffles: a thread has a key.
  void dots_of_threads(Expr key0) {
    const int lanes = k_.lanes;
    b_.loop("turn", ceil_div(kKeysOfBlock, threads_), [&](Expr turn) {
      const Expr j = b_.let("j", turn * threads_ + thread_), key = b_.let("key", min(key0 + j, o_.keys - 1));
      std::vector<Buf> sums;
      for (int64_t r = 0; r < rows_; ++r) sums.push_back(b_.variable("sum", o_.zero(lanes)));
      b_.loop("d", o_.spec.width / lanes, [&](Expr d) {
        const Expr of_key = b_.let("of_key", o_.load_k(key, d * int64_t{lanes}, lanes));
        for (int64_t r = 0; r < rows_; ++r) {
          const Buf& sum = sums[static_cast<size_t>(r)];
          sum.set(fma(shared_queries_.load(r * o_.spec.width + d * int64_t{lanes}, lanes), of_key, sum.get()));
        }
      });
      for (int64_t r = 0; r < rows_; ++r) {
        const Expr sum = sums[static_cast<size_t>(r)].get();
        scores_.store(r * kKeysOfBlock + j, lanes > 1 ? reduce_add(sum) : sum);
      }
    });
  }

  // Turns dot products into weights. Each row has a set of threads, which keep its maximum and their parts of its sum.
  void weights(Expr key0, Expr end) {
    const Expr row = b_.let("row", thread_ / of_row_), own_row = b_.let("own_row", min(row, rows_ - 1));
    const Expr query = select_row(own_row), first = own_row * kKeysOfBlock + thread_ % of_row_;
    const int64_t each = kKeysOfBlock / of_row_;
    const Buf own = b_.registers("own", o_.type, each), largest = b_.variable("largest", top_.get());
    const auto key_of = [&](Expr i) { return key0 + thread_ % of_row_ + i * of_row_; };
    b_.loop("i", each, [&](Expr i) {
      const Expr key = b_.let("key", key_of(i));
      const Expr score = o_.score(scores_.load(first + i * of_row_), query, min(key, o_.keys - 1));
      const Expr seen = b_.let("score", select(key < end, score, o_.low()));
      own.store(i, seen);
      largest.set(max(largest.get(), seen));
    });
    const Expr top = across_threads(ExprOp::Max, largest.get(), of_row_);
    const Expr base = b_.let("base", finite_or_zero(top)), factor = b_.let("factor", exp(top_.get() - base));
    top_.set(top);
    sum_.set(sum_.get() * factor);
    b_.loop("i", each, [&](Expr i) {
      const Expr weight = b_.let("weight", exp(own.load(i) - base));
      sum_.set(sum_.get() + weight);
      b_.when(row < rows_, [&] { weights_.store(first + i * of_row_, weight); });
    });
    b_.when(row < rows_ && thread_ % of_row_ == 0, [&] { factors_.store(own_row, factor); });
  }

  void add_values(Expr key0) {
    for (int64_t r = 0; r < rows_; ++r) {
      const Expr factor = b_.let("factor", factors_.load(r));
      for (int64_t piece = 0; piece < v_.pieces; ++piece) {
        const Buf& sum = results_[static_cast<size_t>(r * v_.pieces + piece)];
        sum.set(sum.get() * broadcast(factor, v_.lanes));
      }
    }
    each_key(AttentionPart::V, v_, key0, [&](Expr j, const std::vector<Expr>& value) {
      for (int64_t r = 0; r < rows_; ++r) {
        const Expr weight = b_.let("weight", weights_.load(r * kKeysOfBlock + j));
        for (size_t piece = 0; piece < value.size(); ++piece) {
          const Buf& sum = results_[static_cast<size_t>(r) * value.size() + piece];
          sum.set(fma(broadcast(weight, v_.lanes), value[piece], sum.get()));
        }
      }
    });
  }

  // Adds the results of the sets of threads, row by row, and stores them.
  void store_rows() {
    const int64_t width = o_.spec.value_width, sets = threads_ / v_.threads, pitch = v_.threads * v_.elements();
    const Expr total = across_threads(ExprOp::Add, sum_.get(), of_row_);
    b_.when(thread_ / of_row_ < rows_ && thread_ % of_row_ == 0, [&] {
      totals_.store(thread_ / of_row_, total);
      tops_.store(thread_ / of_row_, top_.get());
    });
    const Buf partial = b_.shared("partial", o_.type, sets * pitch);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t piece = 0; piece < v_.pieces; ++piece)
        partial.store(thread_ / v_.threads * pitch + d_of(v_, piece), results_[static_cast<size_t>(r * v_.pieces + piece)].get());
      b_.barrier();
      b_.when(row0_ + r < o_.spec.group * queries_, [&] {
        const Expr query = select_row(b_.i64(r)), weight = b_.let("total", totals_.load(r));
        const Expr scale = parts_ > 1 ? Expr() : b_.let("scale", select(weight == 0.0, o_.zero(), 1.0 / weight));
        b_.loop("e", ceil_div(width, threads_), [&](Expr e) {
          const Expr d = b_.let("d", e * threads_ + thread_);
          b_.when(d < width, [&] {
            const Buf sum = b_.variable("sum", o_.zero());
            b_.loop("set", sets, [&](Expr set) { sum.set(sum.get() + partial.load(set * pitch + d)); });
            o_.store_y(query, part_ * width + d, parts_ > 1 ? sum.get() : sum.get() * scale);
          });
        });
        if (parts_ == 1) return;
        b_.when(thread_ == 0, [&] {
          o_.store_y(query, parts_ * width + part_ * 2, tops_.load(r));
          o_.store_y(query, parts_ * width + part_ * 2 + 1, weight);
        });
      });
      b_.barrier();
    }
  }

  // Loads queries to registers, or all of them to shared memory.
  void load_queries() {
    const int64_t width = o_.spec.width;
    if (m_.warp > 1) {
      for (int64_t r = 0; r < rows_; ++r) {
        const Expr query = select_row(b_.i64(r));
        for (int64_t piece = 0; piece < k_.pieces; ++piece)
          queries_of_rows_.push_back(b_.variable("query", read(AttentionPart::Q, k_, query, piece)));
      }
      return;
    }
    shared_queries_ = b_.shared("queries", o_.type, rows_ * width);
    b_.loop("e", ceil_div(rows_ * width, threads_), [&](Expr e) {
      const Expr at = b_.let("at", e * threads_ + thread_);
      b_.when(at < rows_ * width, [&] {
        const Expr query = select_row(at / width);
        shared_queries_.store(at, o_.load_q(query, at % width));
      });
    });
    b_.barrier();
  }

  void body() {
    scores_ = b_.shared("scores", o_.type, rows_ * kKeysOfBlock);
    weights_ = b_.shared("weights", o_.type, rows_ * kKeysOfBlock);
    for (auto [buf, name] : {std::pair{&factors_, "factors"}, {&totals_, "totals"}, {&tops_, "tops"}})
      *buf = b_.shared(name, o_.type, rows_);
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t piece = 0; piece < v_.pieces; ++piece) results_.push_back(b_.variable("result", o_.zero(v_.lanes)));
    load_queries();
    top_ = b_.variable("top", o_.low());
    sum_ = b_.variable("sum", o_.zero());
    const Expr end = o_.end(b_.i64(0), queries_), begin = o_.first_block(b_.i64(0), kKeysOfBlock);
    const Expr blocks = b_.let("blocks", max(ceil_div(end, kKeysOfBlock) - begin, 0)),
               each = b_.let("each", ceil_div(blocks, parts_));
    const Expr first = b_.let("first", min(part_ * each, blocks));
    b_.loop("block", min(each, blocks - first), [&](Expr block) {
      const Expr key0 = b_.let("key0", (begin + first + block) * kKeysOfBlock);
      dots(key0);
      b_.barrier();
      weights(key0, end);
      b_.barrier();
      add_values(key0);
    });
    store_rows();
  }

  AttentionOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const int64_t parts_;
  Across k_, v_;
  int64_t queries_ = 1, rows_ = 1, row_blocks_ = 1, threads_ = 1, of_row_ = 1;
  Expr thread_, part_, row0_;
  Buf exchange_, shared_queries_, scores_, weights_, factors_, totals_, tops_;
  std::vector<Buf> queries_of_rows_, results_;  // per row and piece
  Buf top_, sum_;                               // of the row of this thread in weights()
};

}  // namespace

bool attention_has_few_queries(const AttentionSpec& s, const Mapping& m) {
  int64_t queries = 0;
  return m.workgroups && constant(s.queries, &queries) && queries >= 1 && queries <= kDecodedQueries && !is_constant(s.keys, 0) &&
         is_constant(s.k.strides[3], 1) && is_constant(s.v.strides[3], 1) &&
         std::max(s.width, s.value_width) <= kLongHead * kMostOfRows / 4;
}

int64_t attention_parts(const AttentionSpec& s, const Mapping& m) {
  if (!attention_has_few_queries(s, m)) return 1;
  int64_t heads = kLarge, batch = 1, keys = kLarge * kKeysOfPart;
  constant(s.heads, &heads);
  constant(s.batch, &batch);
  constant(s.keys, &keys);
  const int64_t wanted = ceil_div(kPartsOfBusy * m.busy_workgroups, std::max<int64_t>(1, batch * heads / s.group));
  return std::max<int64_t>(1, std::min(wanted, keys / kKeysOfPart));
}

bool attention_of_few(AttentionOperands& o, const Mapping& m, int64_t parts) {
  if (!attention_has_few_queries(o.spec, m)) return false;
  FewQueries(o, m, parts).run();
  return true;
}

void build_attention_sum(Builder& b, const AttentionSpec& s, Operand from, int64_t parts, const Mapping& m) {
  const DType type = compute_dtype(s.q.dtype);
  const Buf x = b.input(from.name, from.dtype, from.extent);
  const FusedInputs fused(b, s.epilogue.inputs);
  const Buf y = b.output(s.y.name, s.y.dtype, s.y.extent);
  const Expr heads = s.heads.in(b.kernel()), queries = s.queries.in(b.kernel());
  const int64_t width = s.value_width;
  const Expr zero = b.value(type, 0);
  for_each(b, m, "work", s.batch.in(b.kernel()) * heads * queries * width, 4 * width * parts, [&](Expr work) {
    const Expr row = b.let("row", work / width), d = b.let("d", work % width), first = row * attention_part_elements(s, parts);
    const auto top_of = [&](Expr part) { return x.load(first + parts * width + part * 2); };
    const Buf top = b.variable("top", top_of(b.i64(0)));
    b.loop("part", parts - 1, [&](Expr part) { top.set(max(top.get(), top_of(part + 1))); });
    const Expr base = b.let("base", finite_or_zero(top.get()));
    const Buf total = b.variable("total", zero), sum = b.variable("sum", zero);
    b.loop("part", parts, [&](Expr part) {
      const Expr factor = b.let("factor", exp(top_of(part) - base));
      total.set(fma(factor, x.load(first + parts * width + part * 2 + 1), total.get()));
      sum.set(fma(factor, x.load(first + part * width + d), sum.get()));
    });
    Expr value = b.let("value", select(total.get() == 0.0, zero, sum.get() / total.get()));
    const std::vector<Expr> at = {row / (heads * queries), row / queries % heads, row % queries, d};
    value = fused.values(s.epilogue.body, {&value, 1}, at)[0];
    y.store(element_at(b.kernel(), s.y, at), cast_to(value, s.y.dtype));
  });
}

}  // namespace rlxc::kernel
