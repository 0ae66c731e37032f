#include "passes/recognise/expert_shares.h"

#include <limits>

#include "passes/match.h"
#include "passes/recognise/mask_match.h"

namespace rlxc {

using namespace match;

namespace {

constexpr int64_t kMostExperts = 1024;
constexpr int kMostRoutingSteps = 8;

ValueId through_casts(const Graph& g, ValueId v) {
  while (g.op(g.def(v)) == OpKind::Cast) v = g.operand(g.def(v), 0);
  return v;
}

// Skips Casts between floats.
ValueId uncast(const Graph& g, ValueId v) {
  while (g.op(g.def(v)) == OpKind::Cast && is_float(g, g.operand(g.def(v), 0))) v = g.operand(g.def(v), 0);
  return v;
}

std::optional<Routing> scattered_routing(const Graph& g, NodeId n) {
  const auto& a = g.attrs<ScatterAttrs>(n);
  const auto experts = size_at(g, g.result(n), 1);
  if (a.axis != 1 || a.reduction != Reduction::None || !experts || chosen_of(g, g.operand(n, 1)) != experts) return std::nullopt;
  return Routing{g.operand(n, 1), *experts};
}

std::optional<Shares> scattered(const Graph& g, NodeId n) {
  const auto routing = scattered_routing(g, n);
  if (!routing || scalar(g, g.operand(n, 0)) != 0) return std::nullopt;
  return Shares{*routing, g.operand(n, 2), {}};
}

// Matches one-hot rows [tokens, k, experts] times shares [tokens, k, 1], or a Where of both, summed over k.
std::optional<Shares> by_one_hot(const Graph& g, NodeId n) {
  const auto& a = g.attrs<ReduceAttrs>(n);
  const NodeId mul = g.def(uncast(g, g.operand(n, 0)));
  const bool picks = g.op(mul) == OpKind::Where && scalar(g, g.operand(mul, 2)) == 0;
  if (a.op != ReduceOp::Sum || a.axes != std::vector<int64_t>{1} || a.keep_dim || !(picks || g.op(mul) == OpKind::Mul))
    return std::nullopt;
  for (size_t i = 0; i < (picks ? 1U : 2U); ++i) {
    const auto hot = one_hot_of(g, g.operand(mul, i));
    const NodeId share = defining_op(g, g.operand(mul, 1 - i), OpKind::Reshape);
    if (!hot || !share.valid()) continue;
    const ValueId by = g.operand(share, 0);
    const auto d = g.dims(g.result(share));
    if (same_dims(g, hot->who, by) && d.size() == 3 && d[2] == Dim(1) && chosen_of(g, hot->who) == hot->experts)
      return Shares{*hot, by, {}};
  }
  return std::nullopt;
}

// Matches matrices that are 0 (or false) for all experts that are not chosen.
class ZeroElsewhere {
 public:
  ZeroElsewhere(const Graph& g, std::string* detail) : g_(g), detail_(detail) {}

  std::optional<Routing> of(ValueId v, int steps = kMostRoutingSteps) {
    const NodeId n = g_.def(v);
    if (steps == 0 || g_.rank(v) != 2 || ++visited_ > kMostVisits) return std::nullopt;
    const auto operand = [&](size_t i) {
      return same_dims(g_, g_.operand(n, i), v) ? of(g_.operand(n, i), steps - 1) : std::nullopt;
    };
    switch (g_.op(n)) {
      case OpKind::Mul:
      case OpKind::And: {
        const auto left = operand(0);
        return left ? left : operand(1);
      }
      case OpKind::Cast:
      case OpKind::Div: return operand(0);
      case OpKind::Ne: return scalar(g_, g_.operand(n, 1)) == 0 ? operand(0) : std::nullopt;
      case OpKind::Gt:
      case OpKind::Ge:
      case OpKind::Lt:
      case OpKind::Le: return compared(n, steps);
      case OpKind::Where: return picked(n, 0, steps);
      case OpKind::Softmax: return g_.attrs<AxisAttrs>(n).axis == 1 ? of_softmax(g_.operand(n, 0), steps) : std::nullopt;
      case OpKind::ScatterElements: return scalar(g_, g_.operand(n, 0)) == 0 ? scattered_routing(g_, n) : std::nullopt;
      case OpKind::Reduce: return reduced(n);
      default: return std::nullopt;
    }
  }

 private:
  // The routing of a condition that is true for all experts not chosen.
  std::optional<Routing> true_elsewhere(ValueId v, int steps) {
    const NodeId n = g_.def(v);
    if (g_.op(n) == OpKind::Not) return of(g_.operand(n, 0), steps - 1);
    return g_.op(n) == OpKind::Eq && scalar(g_, g_.operand(n, 1)) == 0 ? of(g_.operand(n, 0), steps - 1) : std::nullopt;
  }

  // Matches a Where that is x for chosen experts and `fill` elsewhere; a nonzero fill stands for any masking number.
  std::optional<Routing> picked(NodeId n, double fill, int steps) {
    for (const bool where_true : {true, false}) {
      const auto other = scalar(g_, g_.operand(n, where_true ? 2 : 1));
      if (!other || !(fill == 0 ? *other == 0 : recognise::hides(g_.dtype(g_.result(n)), *other))) continue;
      const ValueId condition = g_.operand(n, 0);
      if (const auto r = where_true ? of(condition, steps - 1) : true_elsewhere(condition, steps)) return r;
    }
    return std::nullopt;
  }

  std::optional<Routing> of_softmax(ValueId scores, int steps) {
    const NodeId n = g_.def(scores);
    const double hidden = -std::numeric_limits<double>::infinity();
    if (g_.op(n) == OpKind::Where) return picked(n, hidden, steps);
    if (g_.op(n) != OpKind::ScatterElements) return std::nullopt;
    const auto fill = scalar(g_, g_.operand(n, 0));
    return fill && recognise::hides(g_.dtype(scores), *fill) ? scattered_routing(g_, n) : std::nullopt;
  }

  // Matches x > 0. A comparison with the k-th largest is not unique if there are ties.
  std::optional<Routing> compared(NodeId n, int steps) {
    if (g_.op(n) == OpKind::Gt && scalar(g_, g_.operand(n, 1)) == 0) return of(g_.operand(n, 0), steps - 1);
    for (ValueId o : g_.operands(n)) {
      for (int i = 0; i < kMostRoutingSteps && !g_.operands(g_.def(o)).empty(); ++i) {
        if (g_.op(g_.def(o)) == OpKind::TopK && detail_->empty())
          *detail_ = "experts are chosen by comparison with the value of the last one that is: of equal ones there may be more";
        o = g_.operand(g_.def(o), 0);
      }
    }
    return std::nullopt;
  }

  // Matches one-hot rows [tokens, k, experts], with or without a factor, reduced over k by sum or maximum.
  std::optional<Routing> reduced(NodeId n) {
    const auto& a = g_.attrs<ReduceAttrs>(n);
    if ((a.op != ReduceOp::Sum && a.op != ReduceOp::Max) || a.axes != std::vector<int64_t>{1} || a.keep_dim) return std::nullopt;
    const ValueId x = through_casts(g_, g_.operand(n, 0));
    const NodeId inner = g_.def(x);
    const bool factor = a.op == ReduceOp::Sum && g_.op(inner) == OpKind::Mul;
    for (ValueId v : factor ? std::vector{g_.operand(inner, 0), g_.operand(inner, 1)} : std::vector{x}) {
      const auto hot = one_hot_of(g_, v);
      if (hot && same_dims(g_, v, x) && chosen_of(g_, hot->who) == hot->experts) return hot;
    }
    return std::nullopt;
  }

  static constexpr int kMostVisits = 64;
  const Graph& g_;
  std::string* detail_;
  int visited_ = 0;
};

}  // namespace

ValueId Shares::value(Builder& b) const {
  return of_choice.valid() ? of_choice : b.create(OpKind::GatherElements, {matrix, routing.who}, AxisAttrs{1});
}

std::optional<int64_t> chosen_of(const Graph& g, ValueId v) {
  const ValueId who = through_casts(g, v);
  const NodeId best = g.def(who);
  if (g.rank(v) != 2) return std::nullopt;
  if (g.op(best) == OpKind::TopK) {
    const auto& a = g.attrs<TopKAttrs>(best);
    const bool indices = who == g.result(best, 1) && a.axis == 1 && a.k == g.dims(v)[1];
    return indices ? size_at(g, g.operand(best, 0), 1) : std::nullopt;
  }
  const NodeId one = g.op(best) == OpKind::Reshape ? g.def(g.operand(best, 0)) : best;
  if (g.op(one) != OpKind::ArgReduce || g.rank(g.operand(one, 0)) != 2 || g.attrs<ArgAttrs>(one).axis != 1) return std::nullopt;
  const bool column = g.dims(v)[1] == Dim(1) && g.dims(v)[0] == g.dims(g.result(one))[0];
  return column ? size_at(g, g.operand(one, 0), 1) : std::nullopt;
}

std::optional<Routing> one_hot_of(const Graph& g, ValueId v) {
  const NodeId n = g.def(through_casts(g, v));
  if ((g.op(n) != OpKind::OneHot && g.op(n) != OpKind::Eq) || g.rank(g.result(n)) != 3) return std::nullopt;
  const auto experts = size_at(g, g.result(n), 2);
  if (!experts) return std::nullopt;
  if (g.op(n) == OpKind::OneHot) {
    const bool is_mask = g.attrs<OneHotAttrs>(n).axis == 2 && elements(g, g.operand(n, 1), 2) == std::vector<double>{0, 1};
    return is_mask ? std::optional(Routing{g.operand(n, 0), *experts}) : std::nullopt;
  }
  for (size_t i = 0; i < 2; ++i) {
    const NodeId column = defining_op(g, through_casts(g, g.operand(n, i)), OpKind::Reshape);
    const std::vector<double> numbers = elements(g, g.operand(n, 1 - i), kMostExperts);
    if (!column.valid() || g.rank(g.operand(column, 0)) != 2 || g.dims(g.result(column)).back() != Dim(1) ||
        static_cast<int64_t>(numbers.size()) != *experts)
      continue;
    bool counts = true;
    for (size_t e = 0; e < numbers.size(); ++e) counts = counts && numbers[e] == static_cast<double>(e);
    if (counts) return Routing{g.operand(column, 0), *experts};
  }
  return std::nullopt;
}

std::optional<Shares> shares_of(const Graph& g, ValueId v, std::string* detail) {
  const ValueId plain = uncast(g, v);
  const NodeId n = g.def(plain);
  if (g.rank(plain) != 2 || !is_float(g, v)) return std::nullopt;
  std::optional<Shares> s;
  if (g.op(n) == OpKind::ScatterElements) s = scattered(g, n);
  if (g.op(n) == OpKind::Reduce) s = by_one_hot(g, n);
  if (s) return s;
  const auto routing = ZeroElsewhere(g, detail).of(plain);
  const bool fits = routing && size_at(g, plain, 1) == routing->experts;
  return fits ? std::optional(Shares{*routing, {}, v}) : std::nullopt;
}

std::optional<IsExpert> is_expert(const Graph& g, ValueId v) {
  const NodeId eq = defining_op(g, v, OpKind::Eq);
  if (!eq.valid()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const auto e = scalar(g, g.operand(eq, 1 - i));
    const auto experts = e ? chosen_of(g, g.operand(eq, i)) : std::nullopt;
    if (experts) return IsExpert{{g.operand(eq, i), *experts}, static_cast<int64_t>(*e)};
  }
  return std::nullopt;
}

std::optional<Column> column_of(const Graph& g, ValueId v) {
  for (int steps = 0; steps < 4; ++steps) {
    const NodeId n = g.def(v);
    if (g.op(n) == OpKind::Reshape || g.op(n) == OpKind::Cast) {
      v = g.operand(n, 0);
    } else if (g.op(n) == OpKind::Narrow && g.rank(v) == 2) {
      const auto& a = g.attrs<NarrowAttrs>(n);
      if (a.len != Dim(1) || !a.start.is_static()) return std::nullopt;
      const ValueId from = g.operand(n, 0);
      if (a.axis == 1) return Column{{{}, {}, from}, a.start.size()};
      const NodeId t = defining_op(g, from, OpKind::Transpose);
      return t.valid() ? std::optional(Column{{{}, {}, g.operand(t, 0)}, a.start.size()}) : std::nullopt;
    } else if (g.op(n) == OpKind::Gather && g.attrs<AxisAttrs>(n).axis == 1 && g.rank(g.operand(n, 0)) == 2) {
      const auto index = scalar(g, g.operand(n, 1));
      return index ? std::optional(Column{{{}, {}, g.operand(n, 0)}, static_cast<int64_t>(*index)}) : std::nullopt;
    } else if (g.op(n) == OpKind::Reduce) {
      const auto& a = g.attrs<ReduceAttrs>(n);
      const NodeId inner = g.def(g.operand(n, 0));
      if (a.op != ReduceOp::Sum || a.axes != std::vector<int64_t>{1} || g.rank(g.operand(n, 0)) != 2) return std::nullopt;
      const bool picks = g.op(inner) == OpKind::Where && scalar(g, g.operand(inner, 2)) == 0;
      if (!picks && g.op(inner) != OpKind::Mul) return std::nullopt;
      for (size_t i = 0; i < (picks ? 1U : 2U); ++i) {
        const auto one = is_expert(g, through_casts(g, g.operand(inner, i)));
        const ValueId share = g.operand(inner, 1 - i);
        if (one && same_dims(g, one->routing.who, share)) return Column{{one->routing, share, {}}, one->expert};
      }
      return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace rlxc
