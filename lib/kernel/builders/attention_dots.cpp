#include "kernel/builders/attention_dots.h"

#include <algorithm>

#include "kernel/builders/gemm_operands.h"
#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kMostScores = 1 << 16;  // of a task, f32 on the stack
constexpr int64_t kMostQueries = 48;      // of a task
constexpr int64_t kSlack = 64;            // bytes that vectors of probabilities may reach beyond the last

// Replaces the scores of each row by their softmax, rounded.
class RoundedSoftmax {
 public:
  RoundedSoftmax(GemmOperands& o, const IntegerAttentionSpec& s, Buf codes, const Mapping& m)
      : o_(o), b_(o.b), s_(s), codes_(codes), m_(m), lanes_(m.vector_lanes(sizeof(float))) {}

  // The steps of a row depend on one another, so each is done for all rows in turn.
  void run(Expr row0, Expr rows, int64_t most_rows) {
    Buf tops = b_.registers("tops", DType::F32, most_rows), scales = b_.registers("scales", DType::F32, most_rows);
    const auto each = [&](const std::function<void(Expr r, Expr first)>& body) {
      b_.loop("r", rows, [&](Expr r) { body(r, b_.let("first", r * o_.n)); });
    };
    each([&](Expr r, Expr first) {
      tops.store(r, finite_or_zero(gathered(ExprOp::Max, [&](Expr j, int lanes) { return score(first + j, lanes); })));
    });
    each([&](Expr r, Expr first) {
      const Expr top = b_.let("top", tops.load(r));
      const Expr sum = gathered(ExprOp::Add, [&](Expr j, int lanes) {
        const Expr e = b_.let("e", exp(score(first + j, lanes) - broadcast(top, lanes)));
        o_.to_c.store(first + j, e);
        return e;
      });
      scales.store(r, select(sum == 0.0, sum, 1.0 / sum));
    });
    each([&](Expr r, Expr first) {
      const Expr scale = b_.let("scale", scales.load(r));
      across(b_, o_.n, lanes_, {}, 1, 1, [&](Expr j, int lanes, int) {
        const Expr p = b_.let("p", score(first + j, lanes) * broadcast(scale, lanes));
        const auto load = [&](size_t i) { return broadcast(o_.extra(i, row0 + r, j, lanes, false), lanes); };
        codes_.store(first + j, cast_to(s_.round(p, load), s_.values.a.dtype));
      });
    });
  }

 private:
  Expr score(Expr at, int lanes) const { return o_.to_c.load(at, lanes); }

  Expr gathered(ExprOp combine, const std::function<Expr(Expr j, int lanes)>& term) {
    Accumulator all(b_, combine, DType::F32, lanes_);
    across(b_, o_.n, lanes_, {}, 1, all.slots(), [&](Expr j, int lanes, int slot) { all.add(term(j, lanes), slot); });
    return all.result(m_, {}, 1);
  }

  GemmOperands& o_;
  Builder& b_;
  const IntegerAttentionSpec& s_;
  Buf codes_;
  const Mapping& m_;
  const int lanes_;
};

}  // namespace

void build_integer_attention(Builder& b, IntegerAttentionSpec s, const Mapping& m) {
  const int64_t queries = constant_value(s.scores.m), keys = constant_value(s.scores.n);
  const int64_t most = std::clamp<int64_t>(kMostScores / std::max<int64_t>(keys, 1), 1, kMostQueries);
  const int64_t blocks = std::max<int64_t>((queries + most - 1) / most, 1),
                even = std::max<int64_t>((queries + blocks - 1) / blocks, 1);
  const int64_t high = register_tile(m, DType::I32).rows, whole = (even + high - 1) / high * high;
  const int64_t size = queries > even && whole <= most ? whole : even;  // queries of a task
  const auto in_task = [&](Operand* o, DType t) {
    o->dtype = t;
    o->strides.assign(s.scores.batch.size(), 0);
    o->strides.insert(o->strides.end(), {keys, 1});
  };
  in_task(&s.scores.c, DType::F32);
  in_task(&s.values.a, s.values.a.dtype);
  GemmOperands scores(b, s.scores), values(b, s.values);
  scores.add_a();
  scores.add_b();
  scores.add_zeros();
  scores.add_extras();
  values.add_b();
  values.add_zeros();
  values.add_extras_and_c();
  const int64_t work = size * keys * (constant_value(s.scores.k) + constant_value(s.values.n)) / 16 + size * keys * 8;
  for_each(b, m, "work", scores.batches() * blocks, work, [&](Expr i) {
    const Expr row0 = b.let("query0", i % blocks * size), rows = b.let("queries", min(b.i64(queries) - row0, size));
    scores.batch = values.batch = split_index(b.let("batch", i / blocks), s.scores.batch);
    scores.to_c = b.registers("scores", DType::F32, size * keys);
    values.from_a = b.registers("probabilities", s.values.a.dtype, size * keys + kSlack);
    s.scores.c.offset = s.values.a.offset = 0 - row0 * keys;
    gemm_rows_on_dots(scores, m, row0, rows, size);
    RoundedSoftmax(scores, s, values.from_a, m).run(row0, rows, size);
    gemm_rows_on_dots(values, m, row0, rows, size);
  });
}

}  // namespace rlxc::kernel
