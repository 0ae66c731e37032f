// Rewrites mixtures of experts to k rows per token, each multiplied with the matrices of its expert (GroupedMatMul):
//   sum over e of expert_e(x) * share[:, e]            share: 0 for all but the k best of TopK (expert_shares.h)
//   for each e: y[t] += expert_e(x[t]) * share[t, j]   t, j: NonZero of "expert e is choice j of token t"
// Declined ("mixture_of_experts") if the experts differ in structure or the rows are slower. O(nodes * experts).
#include <algorithm>

#include "analysis/views.h"
#include "passes/fuse/cost_decision.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/recognise/expert_dispatch.h"

namespace rlxc {
namespace {

using namespace match;

constexpr double kRowsSlower = 4;  // cost factor relative to a plain matmul of as many flops
constexpr std::string_view kMixtureOfExperts = "mixture_of_experts";

// A value [tokens, n] that all experts read; invalid if they read different ones.
ValueId same_tokens(const Graph& g, ExpertRows& rows, const Family& f) {
  ValueId v = f[0];
  if (rows.batched()) {
    for (int steps = 0; steps < 4; ++steps) {
      const NodeId n = g.def(v);
      const bool repeats = g.op(n) == OpKind::Expand || g.op(n) == OpKind::Tile, moves = g.op(n) == OpKind::Reshape;
      if (!(repeats || moves) || g.rank(g.operand(n, 0)) < 2) break;
      v = g.operand(n, 0);
      if (g.rank(v) == 2 && g.dims(v)[0] == rows.tokens()) break;
      if (g.rank(v) == 2) continue;  // rows of all experts, concatenated
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

  // Matches the sum over all e of expert_e * share[:, e].
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
    std::optional<Shares> shares;
    for (ValueId t : terms) {
      const NodeId mul = defining_op(g_, t, OpKind::Mul);
      if (!mul.valid()) return std::nullopt;
      bool found = false;
      for (size_t i = 0; i < 2 && !found; ++i) {
        const auto column = column_of(g_, g_.operand(mul, i));
        if (!column || column->expert < 0 || column->expert >= static_cast<int64_t>(terms.size())) continue;
        ValueId& expert = experts[static_cast<size_t>(column->expert)];
        if (expert.valid() || (shares && *shares != column->of)) return std::nullopt;
        expert = g_.operand(mul, 1 - i), shares = column->of, found = true;
      }
      if (!found) return std::nullopt;
      sums.push_back(mul);
    }
    if (!shares) return std::nullopt;
    if (shares->matrix.valid()) {
      std::string detail;
      shares = shares_of(g_, shares->matrix, &detail);
      if (!detail.empty()) return ties(std::move(sums), std::move(detail));
    }
    if (!shares || shares->routing.experts != static_cast<int64_t>(terms.size())) return std::nullopt;
    const Dim tokens = g_.dims(shares->routing.who)[0];
    return dense(*shares, experts, std::vector<Dim>(experts.size(), tokens), std::move(sums));
  }

  // Matches a sum over the axis of experts: axis 0 ([experts, tokens, width]), or axis 1 of stacked results.
  std::optional<Mixture> with_axis(NodeId root) const {
    const auto& a = g_.attrs<ReduceAttrs>(root);
    const NodeId mul = defining_op(g_, g_.operand(root, 0), OpKind::Mul);
    if (a.op != ReduceOp::Sum || a.axes.size() != 1 || a.axes[0] > 1 || a.keep_dim || !mul.valid()) return std::nullopt;
    const auto axis = static_cast<size_t>(a.axes[0]);
    for (size_t i = 0; i < 2; ++i) {
      NodeId n = g_.def(g_.operand(mul, i));
      while (g_.op(n) == OpKind::Reshape || g_.op(n) == OpKind::Cast) n = g_.def(g_.operand(n, 0));
      if (axis == 0 && g_.op(n) != OpKind::Transpose) continue;
      const ValueId matrix = axis == 0 ? g_.operand(n, 0) : g_.result(n);
      const auto d = g_.dims(g_.operand(mul, i));
      if (g_.rank(matrix) != 2 || d.size() != 3 || d[2] != Dim(1) || d[axis] != g_.dims(matrix)[1] ||
          (axis == 1 && d[0] != g_.dims(matrix)[0]))
        continue;
      std::string detail;
      const auto s = shares_of(g_, matrix, &detail);
      if (!detail.empty()) return ties({root, mul}, std::move(detail));
      if (!s || d[axis] != Dim(s->routing.experts)) continue;
      if (axis == 0) return dense(*s, {g_.operand(mul, 1 - i)}, {}, {root, mul});
      return stacked(*s, root, mul, g_.operand(mul, 1 - i));
    }
    return std::nullopt;
  }

  // Matches stacked results of all experts: [tokens, experts, width].
  std::optional<Mixture> stacked(const Shares& s, NodeId root, NodeId mul, ValueId all) const {
    const NodeId concat = defining_op(g_, all, OpKind::Concat);
    if (!concat.valid() || g_.attrs<AxisAttrs>(concat).axis != 1) return std::nullopt;
    const Dim tokens = g_.dims(s.routing.who)[0];
    Family experts;
    for (ValueId v : g_.operands(concat)) {
      const auto d = g_.dims(v);
      if (d.size() != 3 || d[0] != tokens || d[1] != Dim(1)) return std::nullopt;
      experts.push_back(v);
    }
    if (static_cast<int64_t>(experts.size()) != s.routing.experts) return std::nullopt;
    const std::vector<Dim> rows(experts.size(), tokens);
    return dense(s, std::move(experts), rows, {root, mul, concat});
  }

  Mixture ties(std::vector<NodeId> sums, std::string detail) const {
    Mixture m;
    m.sums = std::move(sums), m.reason = "ties", m.detail = std::move(detail);
    return m;
  }

  Mixture dense(const Shares& s, Family experts, std::vector<Dim> rows_of, std::vector<NodeId> sums) const {
    const auto leaf = [&g = g_](ExpertRows& rows, const Family& f) { return same_tokens(g, rows, f); };
    return {s.routing, std::move(experts), std::move(rows_of), leaf, s, {}, std::move(sums), {}, {}};
  }

  double time_of(NodeId n, double slower = 1) const {
    if (has_trait(g_.op(n), kLeaf) || view_of(g_, n) || is_weight(g_, g_.result(n))) return 0;
    Cost c = node_cost(g_, n);
    if (g_.op(n) == OpKind::GroupedMatMul) c.flops *= slower;
    return launch_time_ns(c, context_.target.machine);
  }

  bool emit(NodeId root, const Mixture& m) {
    const auto decline = [&](std::string_view reason, std::string detail) {
      context_.decisions.push_back(declined(g_, kMixtureOfExperts, root, reason, std::move(detail)));
      return false;
    };
    if (!m.reason.empty()) return decline(m.reason, m.detail);
    const size_t before = g_.node_capacity();
    ExpertRows rows(g_, root, m.routing, m.rows_of);
    rows.leaf = [&](const Family& f) { return m.leaf(rows, f); };
    ValueId y = rows.of(m.experts);
    const auto give_up = [&](std::string_view reason, std::string detail) {
      for (size_t i = g_.node_capacity(); i-- > before;)
        if (g_.alive(NodeId(i))) erase_dead(g_, NodeId(i));
      return decline(reason, std::move(detail));
    };
    if (!y.valid() || rows.made.empty()) return give_up("unlike", "the experts are not one graph over different weights");
    Builder& b = rows.builder();
    if (m.shares) y = b.mul(y, b.reshape(b.cast(m.shares->value(b), g_.dtype(y)), {rows.rows(), Dim(1)}));
    ValueId whole = rows.summed(y, g_.result(root));
    if (m.start.valid()) whole = b.add(m.start, whole);
    fuse::CostDecision time;
    // Dispatched experts take the time of as many rows with one matrix, in separate launches.
    const bool sent = !m.shares;
    if (sent) {  // the host waits for the number of rows
      for (NodeId n : rows.made) time.separate_ns += time_of(n);
      time.separate_ns += static_cast<double>(m.routing.experts) * context_.target.machine.wait_ns;
    }
    const double launch = context_.target.machine.launch_ns;
    for (NodeId n : rows.dense) time.separate_ns += sent ? view_of(g_, n) ? 0 : launch : time_of(n);
    for (NodeId n : m.sums) time.separate_ns += sent ? launch : time_of(n);
    for (size_t i = before; i < g_.node_capacity(); ++i)
      if (g_.alive(NodeId(i))) time.fused_ns += time_of(NodeId(i), kRowsSlower);
    if (!time.pays()) return give_up("cost", time.detail());
    std::vector<NodeId> members = m.sums;
    members.insert(members.end(), rows.dense.begin(), rows.dense.end());
    context_.decisions.push_back(fused(g_, kMixtureOfExperts, root, members));
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
    bool chooses = false;  // only graphs with a router are searched
    for (NodeId n : g.nodes()) chooses = chooses || g.op(n) == OpKind::TopK || g.op(n) == OpKind::ArgReduce;
    if (!chooses) return;
    Mixtures mixtures(g, context);
    for (NodeId n : g.nodes()) found += context.rewrite([&] { return mixtures.visit(n); });
  });
  return {found > 0, {{"mixtures", found}}};
}

}  // namespace rlxc
