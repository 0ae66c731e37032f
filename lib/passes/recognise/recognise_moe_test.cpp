#include <array>
#include <limits>

#include "passes/passes.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// How shares become 0 for experts that are not chosen.
enum class Router { Choices, Masked, Renormalised, HiddenScores, ScatteredScores, EachExpert, Threshold };

struct Case {
  Router router = Router::Choices;
  bool stacked = false;
  bool batched = false, gated = true, unlike = false, missing = false, by_router = true, one_hot = false, interleaved = false,
       where = false, largest = false, batches = false;
  int64_t tokens = 6, hidden = 8, inner = 12, experts = 4, k = 2;

  // Shares are the k largest probabilities of each token.
  std::vector<ValueId> operator()(Builder& b) const {
    const ValueId x = batches ? f32_input(b, "x", {2, tokens / 2, hidden}) : f32_input(b, "x", {tokens, hidden});
    const ValueId logits = b.reshape(b.matmul(x, f32_param(b, "router", {hidden, experts})), {Dim(tokens), Dim(experts)});
    const ValueId probabilities = b.create(OpKind::Softmax, {logits}, AxisAttrs{1});
    ValueId share, who;
    if (largest) {
      share = b.reduce(ReduceOp::Max, probabilities, {1}, true);
      who = b.create(OpKind::ArgReduce, {probabilities}, ArgAttrs{1, true, true, false});
    } else {
      const NodeId best = b.create_node(OpKind::TopK, std::array{probabilities}, TopKAttrs{Dim(k), 1, true, true});
      share = b.graph().result(best, 0), who = b.graph().result(best, 1);
    }
    const ValueId shares = router != Router::Choices ? of_matrix(b, logits, probabilities, share, who)
                           : one_hot                 ? of_one_hot(b, share, who)
                                                     : scattered(b, share, who);
    return {batched ? with_axis(b, x, shares) : written_out(b, x, shares, share, who)};
  }

  ValueId scattered(Builder& b, ValueId share, ValueId who) const {
    const ValueId zeros = b.expand(num(b, by_router ? 0 : 0.1), {Dim(tokens), Dim(experts)});
    return b.create(OpKind::ScatterElements, {zeros, who, share}, ScatterAttrs{1, Reduction::None});
  }
  ValueId of_one_hot(Builder& b, ValueId share, ValueId who) const {
    const ValueId hot = b.create(OpKind::OneHot, {who, b.ints({0, 1})}, OneHotAttrs{2, Dim(experts)});
    const ValueId of_each = b.reshape(share, {Dim(tokens), b.graph().dims(share)[1], Dim(1)});
    return b.reduce(
        ReduceOp::Sum,
        where ? b.create(OpKind::Where, {b.cast(hot, DType::Bool), of_each, num(b, 0)}) : b.mul(b.cast(hot, DType::F32), of_each),
        {1}, false);
  }

  ValueId of_matrix(Builder& b, ValueId logits, ValueId probabilities, ValueId share, ValueId who) const {
    const ValueId hot = b.create(OpKind::OneHot, {who, b.ints({0, 1})}, OneHotAttrs{2, Dim(experts)});
    const ValueId mask = b.reduce(ReduceOp::Sum, b.cast(hot, DType::F32), {1}, false);
    const ValueId masked = b.mul(mask, probabilities), hidden = num(b, -std::numeric_limits<double>::infinity());
    switch (router) {
      case Router::Renormalised: return b.create(OpKind::Div, {masked, b.reduce(ReduceOp::Sum, masked, {1}, true)});
      case Router::HiddenScores: {
        const ValueId unlikely = b.create(OpKind::Eq, {mask, num(b, 0)});
        return b.create(OpKind::Softmax, {b.create(OpKind::Where, {unlikely, hidden, logits})}, AxisAttrs{1});
      }
      case Router::ScatteredScores: {
        const ValueId all = b.expand(hidden, {Dim(tokens), Dim(experts)});
        return b.create(OpKind::Softmax, {b.create(OpKind::ScatterElements, {all, who, share}, ScatterAttrs{1, Reduction::None})},
                        AxisAttrs{1});
      }
      case Router::Threshold: {
        const ValueId least = b.narrow(share, 1, Dim(k - 1), Dim(1));
        return b.create(OpKind::Where, {b.create(OpKind::Ge, {probabilities, least}), probabilities, num(b, 0)});
      }
      default: return masked;
    }
  }

  ValueId of_one(Builder& b, ValueId share, ValueId who, int64_t e) const {
    const ValueId chosen = b.create(OpKind::Eq, {who, b.scalar(DType::I64, static_cast<double>(e))});
    const ValueId own = where ? b.create(OpKind::Where, {chosen, share, num(b, 0)}) : b.mul(b.cast(chosen, DType::F32), share);
    return b.reduce(ReduceOp::Sum, own, {1}, true);
  }

  ValueId layer(Builder& b, ValueId x, const std::string& name, int64_t in, int64_t out, bool bias) const {
    const std::vector<int64_t> w = batched ? std::vector<int64_t>{experts, in, out} : std::vector<int64_t>{out, in};
    const ValueId y = b.matmul(x, f32_param(b, name, w), false, !batched);
    if (!bias) return y;
    return b.add(y, f32_param(b, name + "_bias", batched ? std::vector<int64_t>{experts, 1, out} : std::vector<int64_t>{out}));
  }
  ValueId expert(Builder& b, ValueId x, const std::string& name, OpKind act) const {
    if (interleaved) {  // up and gate in one matmul, interleaved by column
      const ValueId both = layer(b, x, name + "1", hidden, 2 * inner, true);
      const int64_t axis = b.graph().rank(both) - 1;
      const ValueId gate = b.create(OpKind::Slice, {both}, SliceAttrs{axis, Dim(0), Dim(inner), 2}),
                    up = b.create(OpKind::Slice, {both}, SliceAttrs{axis, Dim(1), Dim(inner), 2});
      return layer(b, b.mul(b.unary(act, gate), up), name + "2", inner, hidden, true);
    }
    ValueId h = b.unary(act, layer(b, x, name + "1", hidden, inner, true));
    if (gated) h = b.mul(h, layer(b, x, name + "3", hidden, inner, false));
    return layer(b, h, name + "2", inner, hidden, true);
  }
  ValueId written_out(Builder& b, ValueId x, ValueId shares, ValueId share, ValueId who) const {
    ValueId sum;
    std::vector<ValueId> all;
    for (int64_t e = 0; e < experts - missing; ++e) {
      const ValueId y =
          expert(b, x, "w" + std::string(static_cast<size_t>(e + 1), 'e'), unlike && e == 1 ? OpKind::Relu : OpKind::Silu);
      const ValueId rows = b.reshape(y, {Dim(tokens), Dim(hidden)});
      if (stacked) {
        all.push_back(b.reshape(rows, {Dim(tokens), Dim(1), Dim(hidden)}));
        continue;
      }
      const ValueId term =
          b.mul(rows, router == Router::EachExpert ? of_one(b, share, who, e) : b.narrow(shares, 1, Dim(e), Dim(1)));
      sum = sum.valid() ? b.add(sum, term) : term;
    }
    if (!stacked) return sum;
    const ValueId factor = b.reshape(shares, {Dim(tokens), Dim(experts), Dim(1)});
    return b.reduce(ReduceOp::Sum, b.mul(b.concat(all, 1), factor), {1}, false);
  }
  ValueId with_axis(Builder& b, ValueId x, ValueId shares) const {
    const ValueId all = b.expand(b.reshape(x, {Dim(1), Dim(tokens), Dim(hidden)}), {Dim(experts), Dim(tokens), Dim(hidden)});
    const ValueId y = expert(b, all, "w", OpKind::Silu);
    const ValueId factor = b.reshape(b.transpose(shares, {1, 0}), {Dim(experts), Dim(tokens), Dim(1)});
    return b.reduce(ReduceOp::Sum, b.mul(y, factor), {0}, false);
  }
};

int64_t grouped(const Rewrite& r) {
  int64_t n = 0;
  for (NodeId node : r.after->main().nodes()) n += r.after->main().op(node) == OpKind::GroupedMatMul;
  return n;
}

}  // namespace

TEST_CASE("experts that are written out, or have an axis of their own, become rows that choose theirs") {
  for (bool batched : {false, true})
    for (bool gated : {false, true}) {
      const Rewrite r(
          "recognise_moe",
          Case{.batched = batched, .gated = gated, .one_hot = gated, .tokens = 2, .hidden = 32, .inner = 48, .experts = 16});
      CHECK_MESSAGE(grouped(r) == (gated ? 3 : 2), r.first_decline());
      CHECK(r.left().find(" matmul ") == std::string::npos);
      REQUIRE(r.run.decisions.size() == 1);
      CHECK(r.run.decisions[0].detail == "16 experts");
    }
}

TEST_CASE("shares that are picked by Where, and one expert for each token by its number") {
  for (const bool largest : {false, true})
    for (const bool one_hot : {false, true}) {
      const Rewrite r(
          "recognise_moe",
          Case{.one_hot = one_hot, .where = true, .largest = largest, .tokens = 2, .hidden = 32, .inner = 48, .experts = 16});
      CHECK_MESSAGE(grouped(r) == 3, r.first_decline());
    }
}

TEST_CASE(
    "shares of a matrix that is masked, renormalised or a softmax of what is not hidden, and those of one expert at a time") {
  for (const Router router :
       {Router::Masked, Router::Renormalised, Router::HiddenScores, Router::ScatteredScores, Router::EachExpert})
    for (const bool batched : {false, true}) {
      if (router == Router::EachExpert && batched) continue;
      const Rewrite r("recognise_moe",
                      Case{.router = router, .batched = batched, .tokens = 2, .hidden = 32, .inner = 48, .experts = 16});
      CHECK_MESSAGE(grouped(r) == 3, static_cast<int>(router) << " " << r.first_decline());
      CHECK(r.left().find(" matmul ") == std::string::npos);
    }
  const Rewrite picked("recognise_moe",
                       Case{.router = Router::EachExpert, .where = true, .tokens = 2, .hidden = 32, .inner = 48, .experts = 16});
  CHECK_MESSAGE(grouped(picked) == 3, picked.first_decline());
}

TEST_CASE("results of experts that are stacked before they are added") {
  for (const Router router : {Router::Choices, Router::Masked, Router::HiddenScores}) {
    const Rewrite r("recognise_moe",
                    Case{.router = router, .stacked = true, .tokens = 2, .hidden = 32, .inner = 48, .experts = 16});
    CHECK_MESSAGE(grouped(r) == 3, r.first_decline());
  }
}

TEST_CASE("experts that are chosen by comparison with the last one that is stay as they are: there may be more of them") {
  for (const bool batched : {false, true}) {
    const Rewrite r("recognise_moe", Case{.router = Router::Threshold, .batched = batched});
    CHECK(grouped(r) == 0);
    CHECK(r.first_decline() == "ties");
  }
}

TEST_CASE("experts of tokens that have axes of batch and position") {
  const Rewrite r("recognise_moe", Case{.batches = true, .tokens = 2, .hidden = 32, .inner = 48, .experts = 16});
  CHECK_MESSAGE(grouped(r) == 3, r.first_decline());
}

TEST_CASE("experts whose up and gate are columns of one product") {
  for (bool batched : {false, true}) {
    const Rewrite r("recognise_moe",
                    Case{.batched = batched, .interleaved = true, .tokens = 2, .hidden = 32, .inner = 48, .experts = 16});
    CHECK_MESSAGE(grouped(r) == 2, r.first_decline());
  }
}

TEST_CASE("experts that differ, an expert that is missing and shares of those not chosen stay dense") {
  const Rewrite unlike("recognise_moe", Case{.unlike = true});
  CHECK(grouped(unlike) == 0);
  CHECK(unlike.first_decline() == "unlike");
  CHECK(grouped(Rewrite("recognise_moe", Case{.missing = true})) == 0);
  CHECK(grouped(Rewrite("recognise_moe", Case{.by_router = false})) == 0);
}

TEST_CASE("few large experts stay dense: rows would take longer") {
  const Rewrite r("recognise_moe", Case{.batched = true, .tokens = 64, .hidden = 128, .inner = 128, .experts = 4, .k = 3});
  CHECK(grouped(r) == 0);
  CHECK(r.first_decline() == "cost");
}
