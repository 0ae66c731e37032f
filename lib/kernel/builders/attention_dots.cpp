#include "kernel/builders/attention_dots.h"

#include <algorithm>

#include "kernel/builders/gemm_operands.h"
#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kMostScores = 1 << 16;  // of a task, f32 on the stack
constexpr int64_t kMostQueries = 48;      // of a task
constexpr int64_t kGuessedKeys = 256;     // if their number is symbolic
constexpr int64_t kSlack = 64;            // bytes that vectors of probabilities may reach beyond the last

// Replaces the scores of each row by their softmax, rounded.
class RoundedSoftmax {
 public:
  // at: where the scores and codes of the first row are.
  RoundedSoftmax(GemmOperands& o, const IntegerAttentionSpec& s, Buf codes, Expr at, const Mapping& m)
      : o_(o), b_(o.b), s_(s), codes_(codes), at_(at), m_(m), lanes_(m.vector_lanes(sizeof(float))) {}

  // The steps of a row depend on one another, so each is done for all rows in turn.
  void run(Expr row0, Expr rows, int64_t most_rows) {
    Buf tops = b_.registers("tops", DType::F32, most_rows), scales = b_.registers("scales", DType::F32, most_rows);
    const auto each = [&](const std::function<void(Expr r, Expr first)>& body) {
      b_.loop("r", rows, [&](Expr r) { body(r, b_.let("first", at_ + r * o_.n)); });
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
        std::vector<Expr> inputs = o_.load_fused(row0 + r, j, lanes, false);
        for (Expr& v : inputs) v = broadcast(v, lanes);
        codes_.store(first + j, cast_to(fused_values(s_.probability.body, {&p, 1}, inputs)[0], s_.values.a.dtype));
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
  Expr at_;
  const Mapping& m_;
  const int lanes_;
};

}  // namespace

int64_t attention_slack() { return kSlack; }

void build_integer_attention(Builder& b, IntegerAttentionSpec s, const Mapping& m) {
  if (m.workgroups) return integer_attention_on_grid(b, s, m);
  int64_t queries = 0, keys = 0, k = 64, columns = 64;
  const bool known = constant(s.scores.m, &queries) && constant(s.scores.n, &keys);
  const int64_t high = register_tile(m, DType::I32).rows;
  constant(s.scores.k, &k);
  constant(s.values.n, &columns);
  if (!known) keys = kGuessedKeys;
  int64_t size = std::max<int64_t>(kMostQueries / high, 1) * high;  // queries of a task
  if (known) {
    const int64_t most = std::clamp<int64_t>(kMostScores / std::max<int64_t>(keys, 1), 1, kMostQueries);
    const int64_t blocks = std::max<int64_t>((queries + most - 1) / most, 1),
                  even = std::max<int64_t>((queries + blocks - 1) / blocks, 1);
    const int64_t whole = (even + high - 1) / high * high;
    size = queries > even && whole <= most ? whole : even;
    const auto in_task = [&](Operand* o, DType t) {
      o->dtype = t;
      o->strides.assign(s.scores.batch.size(), 0);
      o->strides.insert(o->strides.end(), {keys, 1});
    };
    in_task(&s.scores.c, DType::F32);
    in_task(&s.values.a, s.values.a.dtype);
  }
  GemmOperands scores(b, s.scores), values(b, s.values);
  scores.add_a();
  scores.add_b();
  scores.add_zeros();
  scores.add_fused();
  values.add_b();
  values.add_zeros();
  values.add_fused_and_c();
  if (!known) {
    scores.to_c = b.output(s.scores.c.name, DType::F32, s.scores.c.extent);
    values.from_a = b.output(s.values.a.name, s.values.a.dtype, s.values.a.extent);
  }
  const Expr blocks = ceil_div(scores.m, size);
  const int64_t work = size * keys * (k + columns) / 16 + size * keys * 8;
  for_each(b, m, "work", scores.batches() * blocks, work, [&](Expr i) {
    const Expr row0 = b.let("query0", i % blocks * size), rows = b.let("queries", min(scores.m - row0, size));
    const Expr batch = b.let("batch", i / blocks);
    scores.batch = values.batch = split_index(batch, s.scores.batch);
    Expr at = b.i64(0);
    if (known) {
      scores.to_c = b.registers("scores", DType::F32, size * keys);
      values.from_a = b.registers("probabilities", s.values.a.dtype, size * keys + kSlack);
      s.scores.c.offset = s.values.a.offset = 0 - row0 * keys;
    } else {
      at = b.let("first_score", (batch * scores.m + row0) * scores.n);
    }
    gemm_rows_on_dots(scores, m, row0, rows, size);
    RoundedSoftmax(scores, s, values.from_a, at, m).run(row0, rows, size);
    gemm_rows_on_dots(values, m, row0, rows, size);
  });
}

}  // namespace rlxc::kernel
