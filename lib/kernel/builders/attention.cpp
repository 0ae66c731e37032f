#include "kernel/builders/attention.h"

#include <algorithm>
#include <limits>

#include "kernel/builders/reduce.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kKeys = 64;  // of a block
constexpr int kQueries = 4;    // rows that share what is loaded of k and v

bool is_constant(const Index& i, int64_t want) {
  int64_t v = 0;
  return constant(i, &v) && v == want;
}

class Attention {
 public:
  Attention(Builder& b, const AttentionSpec& s, const Mapping& m) : b_(b), s_(s), m_(m) {
    q_ = b.input(s.q.name, s.q.dtype, s.q.extent), k_ = b.input(s.k.name, s.k.dtype, s.k.extent),
    v_ = b.input(s.v.name, s.v.dtype, s.v.extent);
    if (s.mask) mask_ = b.input(s.mask->name, s.mask->dtype, s.mask->extent);
    y_ = b.output(s.y.name, s.y.dtype, s.y.extent);
    t_ = compute_dtype(s.q.dtype);
    lanes_ = m.lanes ? 1 : m.vector_lanes(rlxc::bits(t_) / 8);
    int64_t n = 0;
    rows_ = m.lanes || (constant(s.queries, &n) && n < kQueries) ? 1 : kQueries;
  }

  void run() {
    const Expr queries = s_.queries.in(b_.kernel()), heads = s_.heads.in(b_.kernel()), blocks = ceil_div(queries, int64_t{rows_});
    for_each(b_, m_, "work", s_.batch.in(b_.kernel()) * heads * blocks, 1 << 16, [&](Expr work) {
      const Expr first = b_.let("query0", work % blocks * int64_t{rows_});
      head_ = b_.let("head", work / blocks % heads), batch_ = b_.let("batch", work / (blocks * heads));
      kv_head_ = s_.group == 1 ? head_ : b_.let("kv_head", head_ / s_.group);
      queries_.clear();
      for (int r = 0; r < rows_; ++r) queries_.push_back(rows_ == 1 ? first : b_.let("query", min(first + r, queries - 1)));
      block_of_queries(first);
    });
  }

 private:
  Expr at(const Operand& o, Expr head, Expr position, Expr element) {
    auto stride = [&](size_t i) { return o.strides[i].in(b_.kernel()); };
    return o.offset.in(b_.kernel()) + batch_ * stride(0) + head * stride(1) + position * stride(2) + element * stride(3);
  }
  Expr zero() { return kernel::constant(b_.kernel(), t_, 0); }
  Expr low() { return kernel::constant(b_.kernel(), t_, -std::numeric_limits<double>::infinity()); }
  double lowest() const {
    return t_ == DType::F64 ? std::numeric_limits<double>::lowest() : double{std::numeric_limits<float>::lowest()};
  }
  Expr load(const Buf& buf, Expr index, int lanes = 1) { return cast_to(buf.load(index, lanes), t_); }

  void block_of_queries(Expr first) {
    const Expr keys = s_.keys.in(b_.kernel()), queries = s_.queries.in(b_.kernel());
    scores_ = b_.registers("scores", t_, rows_ * kKeys);
    Buf sums = b_.registers("sums", t_, rows_), tops = b_.registers("tops", t_, rows_);
    Buf acc = b_.registers("acc", t_, rows_ * s_.value_width);
    for (int r = 0; r < rows_; ++r) tops.store(r, low()), sums.store(r, zero());
    b_.loop("d", rows_ * s_.value_width, [&](Expr d) { acc.store(d, zero()); });
    Expr end = keys, begin = b_.i64(0);
    if (s_.causal && !s_.finite) end = b_.let("end", max(min(keys, first + rows_ + (keys - queries)), 0));
    if (s_.window && !s_.finite) begin = b_.let("begin", max(first + (keys - queries) - *s_.window, 0) / kKeys);
    b_.loop("block", ceil_div(end, kKeys) - begin, [&](Expr block) {
      const Expr key0 = b_.let("key0", (begin + block) * kKeys), count = b_.let("count", min(end - key0, kKeys));
      score_block(key0, count);
      for (int r = 0; r < rows_; ++r) {
        Buf top = b_.variable("top", tops.load(r));
        b_.loop("j", count, [&](Expr j) { top.set(max(top.get(), scores_.load(r * kKeys + j))); });
        const Expr largest = b_.let("largest", top.get()), base = b_.let("base", select(largest == low(), zero(), largest));
        const Expr factor = b_.let("factor", exp(tops.load(r) - base));
        tops.store(r, largest);
        Buf sum = b_.variable("sum", sums.load(r) * factor);
        exponentials(r, base, count, sum);
        sums.store(r, sum.get());
        b_.loop("d", s_.value_width / width(s_.value_width), [&](Expr d) {
          const Expr i = r * s_.value_width + d * width(s_.value_width);
          acc.store(i, acc.load(i, width(s_.value_width)) * broadcast(factor, width(s_.value_width)));
        });
        tail(s_.value_width, [&](Expr d) { acc.store(r * s_.value_width + d, acc.load(r * s_.value_width + d) * factor); });
      }
      add_values(key0, count, acc);
    });
    for (int r = 0; r < rows_; ++r) {
      auto write = [&] {
        const Expr sum = sums.load(r), scale = b_.let("scale", select(sum == 0.0, zero(), 1.0 / sum));
        b_.loop("d", s_.value_width, [&](Expr d) {
          y_.store(at(s_.y, head_, queries_[static_cast<size_t>(r)], d),
                   cast_to(acc.load(r * s_.value_width + d) * scale, s_.y.dtype));
        });
      };
      if (r == 0) write();
      else b_.when(first + r < queries, write);
    }
  }

  int width(int64_t n) const {
    int w = lanes_;
    while (w > 1 && w > n) w /= 2;
    return w;
  }
  void tail(int64_t n, const std::function<void(Expr)>& body) {
    const int64_t done = n / width(n) * width(n);
    if (done < n) b_.loop("d", n - done, [&](Expr d) { body(d + done); });
  }

  void exponentials(int r, Expr base, Expr count, Buf& sum) {
    const int w = width(kKeys);
    // Scores beyond the block are -inf, so whole vectors can be taken.
    Buf wide = b_.variable("wide", broadcast(zero(), w));
    b_.loop("j", ceil_div(count, int64_t{w}), [&](Expr j) {
      const Expr i = r * kKeys + j * w, e = b_.let("e", exp(scores_.load(i, w) - broadcast(base, w)));
      scores_.store(i, e);
      wide.set(wide.get() + e);
    });
    sum.set(sum.get() + (w > 1 ? reduce_add(wide.get()) : wide.get()));
  }

  // The dot products of the rows with one key each, by vectors along the head; or with many keys, where these lie together.
  void score_block(Expr key0, Expr count) {
    const int w = width(kKeys);
    const Expr padded = ceil_div(count, int64_t{w}) * w;
    for (int r = 0; r < rows_; ++r) b_.loop("j", padded - count, [&](Expr j) { scores_.store(r * kKeys + count + j, low()); });
    auto finish = [&](int r, Expr j, Expr dot) {
      const Expr query = queries_[static_cast<size_t>(r)], key = key0 + j;
      Expr score = dot * s_.scale;
      if (s_.softcap > 0) score = s_.softcap * tanh(score / s_.softcap);
      Expr visible = kernel::constant_int(b_.kernel(), DType::Bool, 1);
      const Expr position = query + (s_.keys.in(b_.kernel()) - s_.queries.in(b_.kernel()));
      if (s_.causal || s_.window) visible = visible && key <= position;
      if (s_.window) visible = visible && key >= position - *s_.window;
      if (s_.mask) {
        auto stride = [&](size_t i) { return s_.mask->strides[i].in(b_.kernel()); };
        const Expr v =
            mask_[s_.mask->offset.in(b_.kernel()) + batch_ * stride(0) + head_ * stride(1) + query * stride(2) + key * stride(3)];
        if (s_.mask_is_bias) score = score + cast_to(v, t_);
        else visible = visible && (v.dtype() == DType::Bool ? v : v != kernel::lit(v, 0));
      }
      scores_.store(r * kKeys + j, select(visible, score, s_.finite ? kernel::constant(b_.kernel(), t_, lowest()) : low()));
    };
    const bool contiguous = is_constant(s_.q.strides[3], 1) && is_constant(s_.k.strides[3], 1);
    const int dw = contiguous ? width(s_.width) : 1;
    b_.loop("j", count, [&](Expr j) {
      std::vector<Buf> dots;
      for (int r = 0; r < rows_; ++r) dots.push_back(b_.variable("dot", broadcast(zero(), dw)));
      b_.loop("d", s_.width / dw, [&](Expr d) {
        const Expr key = b_.let("key", load(k_, at(s_.k, kv_head_, key0 + j, d * dw), dw));
        for (int r = 0; r < rows_; ++r)
          dots[static_cast<size_t>(r)].set(fma(load(q_, at(s_.q, head_, queries_[static_cast<size_t>(r)], d * dw), dw), key,
                                               dots[static_cast<size_t>(r)].get()));
      });
      std::vector<Expr> sums;
      for (int r = 0; r < rows_; ++r)
        sums.push_back(dw > 1 ? reduce_add(dots[static_cast<size_t>(r)].get()) : dots[static_cast<size_t>(r)].get());
      if (const int64_t done = s_.width / dw * dw; done < s_.width) {
        std::vector<Buf> rest;
        for (int r = 0; r < rows_; ++r) rest.push_back(b_.variable("rest", sums[static_cast<size_t>(r)]));
        b_.loop("d", s_.width - done, [&](Expr d) {
          const Expr key = b_.let("key", load(k_, at(s_.k, kv_head_, key0 + j, d + done)));
          for (int r = 0; r < rows_; ++r)
            rest[static_cast<size_t>(r)].set(fma(load(q_, at(s_.q, head_, queries_[static_cast<size_t>(r)], d + done)), key,
                                                 rest[static_cast<size_t>(r)].get()));
        });
        for (int r = 0; r < rows_; ++r) sums[static_cast<size_t>(r)] = rest[static_cast<size_t>(r)].get();
      }
      for (int r = 0; r < rows_; ++r) finish(r, j, sums[static_cast<size_t>(r)]);
    });
  }

  // acc[r] += sum over the keys of score * v; a few vectors of each row stay in registers over the whole block.
  void add_values(Expr key0, Expr count, Buf acc) {
    const int64_t n = s_.value_width;
    const bool contiguous = is_constant(s_.v.strides[3], 1);
    const int w = contiguous ? width(n) : 1;
    auto piece = [&](Expr d, int lanes, int vectors) {
      std::vector<Buf> sum;
      for (int r = 0; r < rows_; ++r)
        for (int v = 0; v < vectors; ++v) sum.push_back(b_.variable("part", acc.load(r * n + d + v * lanes, lanes)));
      b_.loop("j", count, [&](Expr j) {
        std::vector<Expr> value;
        for (int v = 0; v < vectors; ++v)
          value.push_back(b_.let("value", load(v_, at(s_.v, kv_head_, key0 + j, d + v * lanes), lanes)));
        for (int r = 0; r < rows_; ++r) {
          const Expr p = scores_.load(r * kKeys + j);
          for (int v = 0; v < vectors; ++v) {
            Buf& s = sum[static_cast<size_t>(r * vectors + v)];
            s.set(fma(broadcast(p, lanes), value[static_cast<size_t>(v)], s.get()));
          }
        }
      });
      for (int r = 0; r < rows_; ++r)
        for (int v = 0; v < vectors; ++v) acc.store(r * n + d + v * lanes, sum[static_cast<size_t>(r * vectors + v)].get());
    };
    const int64_t vectors = n / w, wide = std::min<int64_t>(4, vectors);
    if (wide > 0) b_.loop("c", vectors / wide, [&](Expr c) { piece(c * (wide * w), w, static_cast<int>(wide)); });
    for (int64_t v = vectors / std::max<int64_t>(wide, 1) * wide; v < vectors; ++v) piece(b_.i64(v * w), w, 1);
    if (vectors * w < n) b_.loop("d", n - vectors * w, [&](Expr d) { piece(d + vectors * w, 1, 1); });
  }

  Builder& b_;
  const AttentionSpec& s_;
  const Mapping& m_;
  Buf q_, k_, v_, mask_, y_, scores_;
  DType t_;
  int lanes_ = 1, rows_ = 1;
  Expr batch_, head_, kv_head_;
  std::vector<Expr> queries_;
};

}  // namespace

void build_attention(Builder& b, const AttentionSpec& s, const Mapping& m) { Attention(b, s, m).run(); }

}  // namespace rlxc::kernel
