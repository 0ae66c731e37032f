#include "passes/recognise/recognise_moe.h"

#include <algorithm>

#include "analysis/views.h"
#include "passes/fuse/cost_decision.h"
#include "passes/match.h"
#include "passes/recognise/expert_dispatch.h"
#include "passes/recognise/expert_rows.h"

namespace rlxc {
namespace {

using namespace match;

constexpr double kRowsSlower = 4;  // than a product of matrices, for as many operations
constexpr std::string_view kPattern = "mixture_of_experts";

// Who is chosen, and with which share: [tokens, k] both.
struct Shares {
  Routing routing;
  ValueId share;
};

// v without Cast between floats.
ValueId uncast(const Graph& g, ValueId v) {
  while (g.op(g.def(v)) == OpKind::Cast && is_float(g, g.operand(g.def(v), 0))) v = g.operand(g.def(v), 0);
  return v;
}

std::optional<Shares> scattered(const Graph& g, NodeId n) {
  const auto& a = g.attrs<ScatterAttrs>(n);
  const auto experts = size_at(g, g.result(n), 1);
  if (a.axis != 1 || a.reduction != Reduction::None || scalar(g, g.operand(n, 0)) != 0 || !experts) return std::nullopt;
  if (chosen_of(g, g.operand(n, 1)) != experts) return std::nullopt;
  return Shares{{g.operand(n, 1), *experts}, g.operand(n, 2)};
}

// One-hot rows [tokens, k, experts] times shares [tokens, k, 1], or one or the other by Where, added up over k.
std::optional<Shares> by_one_hot(const Graph& g, NodeId n) {
  const auto& a = g.attrs<ReduceAttrs>(n);
  const NodeId mul = g.def(uncast(g, g.operand(n, 0)));
  const bool picks = g.op(mul) == OpKind::Where && scalar(g, g.operand(mul, 2)) == 0;
  if (a.op != ReduceOp::Sum || a.axes != std::vector<int64_t>{1} || a.keep_dim || !(picks || g.op(mul) == OpKind::Mul))
    return std::nullopt;
  for (size_t i = 0; i < (picks ? 1U : 2U); ++i) {
    const auto hot = one_hot_of(g, g.operand(mul, i));
    const NodeId share = made_by(g, g.operand(mul, 1 - i), OpKind::Reshape);
    if (!hot || !share.valid()) continue;
    const ValueId by = g.operand(share, 0);
    const auto d = g.dims(g.result(share));
    if (same_dims(g, hot->who, by) && d.size() == 3 && d[2] == Dim(1) && chosen_of(g, hot->who) == hot->experts)
      return Shares{*hot, by};
  }
  return std::nullopt;
}

std::optional<Shares> shares_of(const Graph& g, ValueId v) {
  const NodeId n = g.def(uncast(g, v));
  if (g.rank(g.result(n)) != 2) return std::nullopt;
  if (g.op(n) == OpKind::ScatterElements) return scattered(g, n);
  return g.op(n) == OpKind::Reduce ? by_one_hot(g, n) : std::nullopt;
}

// The column of a matrix [tokens, experts] that v [tokens, 1] is: the matrix and the number.
std::optional<std::pair<ValueId, int64_t>> column_of(const Graph& g, ValueId v) {
  for (int steps = 0; steps < 4; ++steps) {
    const NodeId n = g.def(v);
    if (g.op(n) == OpKind::Reshape || g.op(n) == OpKind::Cast) {
      v = g.operand(n, 0);
    } else if (g.op(n) == OpKind::Narrow && g.rank(v) == 2) {
      const auto& a = g.attrs<NarrowAttrs>(n);
      if (a.len != Dim(1) || !a.start.is_static()) return std::nullopt;
      const ValueId from = g.operand(n, 0);
      if (a.axis == 1) return std::pair{from, a.start.size()};
      const NodeId t = made_by(g, from, OpKind::Transpose);
      return t.valid() ? std::optional(std::pair{g.operand(t, 0), a.start.size()}) : std::nullopt;
    } else if (g.op(n) == OpKind::Gather && g.attrs<AxisAttrs>(n).axis == 1) {
      const auto index = scalar(g, g.operand(n, 1));
      return index ? std::optional(std::pair{g.operand(n, 0), static_cast<int64_t>(*index)}) : std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

// A value [tokens, n] that all experts read; invalid when they read different ones.
ValueId same_tokens(const Graph& g, ExpertRows& rows, const Family& f) {
  ValueId v = f[0];
  if (rows.batched()) {
    for (int steps = 0; steps < 4; ++steps) {
      const NodeId n = g.def(v);
      const bool repeats = g.op(n) == OpKind::Expand || g.op(n) == OpKind::Tile, moves = g.op(n) == OpKind::Reshape;
      if (!(repeats || moves) || g.rank(g.operand(n, 0)) < 2) break;
      v = g.operand(n, 0);
      if (g.rank(v) == 2 && g.dims(v)[0] == rows.tokens()) break;
      if (g.rank(v) == 2) continue;  // rows of all experts, one after the other
      if (g.dims(v)[0] != Dim(1) || g.dims(v)[1] != rows.tokens()) return {};
    }
  } else if (std::ranges::any_of(f, [&](ValueId o) { return o != v; })) {
    return {};
  }
  const auto d = g.dims(v);
  DimTable& dims = g.module().dims;
  const bool all = d.size() >= 2 && dims.equal(dims.product(d.first(d.size() - 1)), rows.tokens());
  return all && d.back() == g.dims(f[0]).back() && !is_weight(g, v) ? rows.repeated(v) : ValueId();
}

class Mixtures {
 public:
  Mixtures(Graph& g, PassContext& context) : g_(g), context_(context) {}

  bool visit(NodeId n) {
    const auto found = form(n);
    return found && emit(n, *found);
  }

 private:
  std::optional<Mixture> form(NodeId n) const {
    switch (g_.op(n)) {
      case OpKind::Add: {
        const auto found = written_out(n);
        return found ? found : dispatched(g_, n);
      }
      case OpKind::Reduce: return with_axis(n);
      case OpKind::ScatterElements:
      case OpKind::ScatterNd: return dispatched(g_, n);
      default: return std::nullopt;
    }
  }

  // A sum of expert_e * share[:, e] over all e.
  std::optional<Mixture> written_out(NodeId root) const {
    if (const NodeId user = g_.only_user(g_.result(root)); user.valid() && g_.op(user) == OpKind::Add) return std::nullopt;
    std::vector<ValueId> work{g_.result(root)}, terms;
    std::vector<NodeId> sums;
    while (!work.empty()) {
      const NodeId n = g_.def(work.back());
      const ValueId v = work.back();
      work.pop_back();
      if (g_.op(n) == OpKind::Add && (n == root || g_.has_one_use(v))) {
        sums.push_back(n);
        for (ValueId o : g_.operands(n)) work.push_back(o);
      } else if (const auto zero = scalar(g_, v); !zero || *zero != 0) {
        terms.push_back(v);
      }
      if (terms.size() > 1024) return std::nullopt;
    }
    Family experts(terms.size());
    ValueId shares;
    for (ValueId t : terms) {
      const NodeId mul = made_by(g_, t, OpKind::Mul);
      if (!mul.valid()) return std::nullopt;
      bool found = false;
      for (size_t i = 0; i < 2 && !found; ++i) {
        const auto column = column_of(g_, g_.operand(mul, i));
        if (!column || column->second < 0 || column->second >= static_cast<int64_t>(terms.size())) continue;
        ValueId& expert = experts[static_cast<size_t>(column->second)];
        if (expert.valid() || (shares.valid() && shares != column->first)) return std::nullopt;
        expert = g_.operand(mul, 1 - i), shares = column->first, found = true;
      }
      if (!found) return std::nullopt;
      sums.push_back(mul);
    }
    const auto s = shares.valid() ? shares_of(g_, shares) : std::nullopt;
    if (!s || s->routing.experts != static_cast<int64_t>(terms.size())) return std::nullopt;
    const Dim tokens = g_.dims(s->share)[0];
    return dense(*s, experts, std::vector<Dim>(experts.size(), tokens), std::move(sums));
  }

  // Sum over the leading axis of experts * shares, transposed.
  std::optional<Mixture> with_axis(NodeId root) const {
    const auto& a = g_.attrs<ReduceAttrs>(root);
    const NodeId mul = made_by(g_, g_.operand(root, 0), OpKind::Mul);
    if (a.op != ReduceOp::Sum || a.axes != std::vector<int64_t>{0} || a.keep_dim || !mul.valid()) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      NodeId n = g_.def(g_.operand(mul, i));
      while (g_.op(n) == OpKind::Reshape || g_.op(n) == OpKind::Cast) n = g_.def(g_.operand(n, 0));
      if (g_.op(n) != OpKind::Transpose || g_.rank(g_.result(n)) != 2) continue;
      const auto s = shares_of(g_, g_.operand(n, 0));
      const auto d = g_.dims(g_.operand(mul, i));
      if (!s || d.size() != 3 || d[0] != Dim(s->routing.experts) || d[2] != Dim(1)) continue;
      return dense(*s, {g_.operand(mul, 1 - i)}, {}, {root, mul});
    }
    return std::nullopt;
  }

  Mixture dense(const Shares& s, Family experts, std::vector<Dim> rows_of, std::vector<NodeId> sums) const {
    const auto leaf = [&g = g_](ExpertRows& rows, const Family& f) { return same_tokens(g, rows, f); };
    return {s.routing, std::move(experts), std::move(rows_of), leaf, s.share, {}, std::move(sums), {}};
  }

  double time_of(NodeId n, double slower = 1) const {
    if (has_trait(g_.op(n), kLeaf) || view_of(g_, n) || is_weight(g_, g_.result(n))) return 0;
    Cost c = node_cost(g_, n);
    if (g_.op(n) == OpKind::GroupedMatMul) c.flops *= slower;
    return launch_time_ns(c, context_.target.machine);
  }

  bool emit(NodeId root, const Mixture& m) {
    const auto decline = [&](std::string_view reason, std::string detail) {
      context_.decisions.push_back(declined(g_, kPattern, root, reason, std::move(detail)));
      return false;
    };
    if (!m.why.empty()) return decline("unlike", m.why);
    const size_t before = g_.node_capacity();
    ExpertRows rows(g_, root, m.routing, m.rows_of);
    rows.leaf = [&](const Family& f) { return m.leaf(rows, f); };
    ValueId y = rows.of(m.experts);
    const auto give_up = [&](std::string_view reason, std::string detail) {
      for (size_t i = g_.node_capacity(); i-- > before;)
        if (g_.alive(NodeId(i))) sweep(g_, NodeId(i));
      return decline(reason, std::move(detail));
    };
    if (!y.valid() || rows.made.empty()) return give_up("unlike", "the experts are not one graph over different weights");
    Builder& b = rows.builder();
    if (m.share.valid()) y = b.mul(y, b.reshape(b.cast(m.share, g_.dtype(y)), {rows.rows(), Dim(1)}));
    ValueId whole = rows.summed(y, g_.result(root));
    if (m.start.valid()) whole = b.add(m.start, whole);
    fuse::CostDecision time;
    // What experts do with rows that they are sent takes the time of as many rows with one matrix, in as many launches.
    const bool sent = !m.share.valid();
    if (sent) {  // how many rows there are, the host waits for
      for (NodeId n : rows.made) time.apart_ns += time_of(n);
      time.apart_ns += static_cast<double>(m.routing.experts) * context_.target.machine.wait_ns;
    }
    const double launch = context_.target.machine.launch_ns;
    for (NodeId n : rows.dense) time.apart_ns += sent ? view_of(g_, n) ? 0 : launch : time_of(n);
    for (NodeId n : m.sums) time.apart_ns += sent ? launch : time_of(n);
    for (size_t i = before; i < g_.node_capacity(); ++i)
      if (g_.alive(NodeId(i))) time.together_ns += time_of(NodeId(i), kRowsSlower);
    if (!time.pays()) return give_up("cost", time.detail());
    std::vector<NodeId> members = m.sums;
    members.insert(members.end(), rows.dense.begin(), rows.dense.end());
    context_.decisions.push_back(fused(g_, kPattern, root, members));
    context_.decisions.back().detail = std::to_string(m.routing.experts) + " experts";
    replace_group(g_, members, g_.result(root), whole);
    return true;
  }

  Graph& g_;
  PassContext& context_;
};

}  // namespace

PassResult recognise_moe(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::GroupedMatMul))) return {};
  each_graph(m, [&](Graph& g) {
    bool chooses = false;  // only such graphs are looked at
    for (NodeId n : g.nodes()) chooses = chooses || g.op(n) == OpKind::TopK || g.op(n) == OpKind::ArgReduce;
    if (!chooses) return;
    Mixtures mixtures(g, context);
    for (NodeId n : g.nodes()) found += context.rewrite([&] { return mixtures.visit(n); });
  });
  return {found > 0, {{"mixtures", found}}};
}

}  // namespace rlxc
