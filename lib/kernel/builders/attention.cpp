#include "kernel/builders/attention.h"

#include "kernel/builders/attention_operands.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kKeys = 64;  // per block

// One thread per query.
void attention_on_lanes(AttentionOperands& o, const Mapping& m) {
  Builder& b = o.b;
  const AttentionSpec& s = o.spec;
  const Expr heads = s.heads.in(b.kernel());
  for_each(b, m, "work", s.batch.in(b.kernel()) * heads * o.queries, 1 << 16, [&](Expr work) {
    const Expr query = b.let("query", work % o.queries), head = b.let("head", work / o.queries % heads);
    o.at_head(b.let("batch", work / (o.queries * heads)), head);
    Buf scores = b.registers("scores", o.type, kKeys), acc = b.registers("acc", o.type, s.value_width);
    Buf top = b.variable("top", o.low()), sum = b.variable("sum", o.zero());
    b.loop("d", s.value_width, [&](Expr d) { acc.store(d, o.zero()); });
    const Expr end = o.end(query, 1), begin = o.first_block(query, kKeys);
    b.loop("block", ceil_div(end, kKeys) - begin, [&](Expr block) {
      const Expr key0 = b.let("key0", (begin + block) * kKeys), count = b.let("count", min(end - key0, kKeys));
      Buf largest = b.variable("largest", top.get());
      b.loop("j", count, [&](Expr j) {
        Buf dot = b.variable("dot", o.zero());
        b.loop("d", s.width, [&](Expr d) { dot.set(fma(o.load_q(query, d), o.load_k(key0 + j, d), dot.get())); });
        const Expr score = b.let("score", o.score(dot.get(), query, key0 + j));
        scores.store(j, score);
        largest.set(max(largest.get(), score));
      });
      const Expr base = b.let("base", select(largest.get() == o.low(), o.zero(), largest.get()));
      const Expr factor = b.let("factor", exp(top.get() - base));
      top.set(largest.get());
      sum.set(sum.get() * factor);
      b.loop("j", count, [&](Expr j) {
        const Expr e = b.let("e", exp(scores.load(j) - base));
        scores.store(j, e);
        sum.set(sum.get() + e);
      });
      b.loop("d", s.value_width, [&](Expr d) {
        Buf part = b.variable("part", acc.load(d) * factor);
        b.loop("j", count, [&](Expr j) { part.set(fma(scores.load(j), o.load_v(key0 + j, d), part.get())); });
        acc.store(d, part.get());
      });
    });
    const Expr total = sum.get(), scale = b.let("scale", select(total == 0.0, o.zero(), 1.0 / total));
    b.loop("d", s.value_width, [&](Expr d) { o.store_y(query, d, acc.load(d) * scale); });
  });
}

// One query, as in decoding, has a form of its own if the number of queries is not known.
void attention_on_threads(AttentionOperands& o, const Mapping& m) {
  int64_t queries = 0;
  if (constant(o.queries, &queries)) {
    const auto rows = attention_tasks_on_rows(o, m);
    return run_tasks(o.b, m, rows ? *rows : attention_tasks_on_tiles(o, m));
  }
  AttentionOperands one(o, o.b.i64(1));
  const Tasks tiles = attention_tasks_on_tiles(o, m);
  const auto rows = attention_tasks_on_rows(one, m);
  rows ? run_tasks(o.b, m, o.queries == 1, *rows, tiles) : run_tasks(o.b, m, tiles);
}

}  // namespace

void build_attention(Builder& b, const AttentionSpec& s, const Mapping& m, int64_t parts) {
  AttentionOperands o(b, s);
  if (m.workgroups) {
    if (!attention_of_few(o, m, parts) && !attention_on_units(o, m) && !attention_on_grid(o, m)) attention_on_lanes(o, m);
  } else {
    attention_on_threads(o, m);
  }
}

}  // namespace rlxc::kernel
