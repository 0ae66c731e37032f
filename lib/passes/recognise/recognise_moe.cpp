#include "passes/recognise/recognise_moe.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/views.h"
#include "passes/fuse/cost_decision.h"
#include "passes/match.h"

namespace rlxc {
namespace {

using namespace match;

constexpr size_t kMostNodes = 64;  // of one expert
constexpr double kRowsSlower = 4;  // than a product of matrices, for as many operations
constexpr std::string_view kPattern = "mixture_of_experts";

// Who is chosen, and with which share: [tokens, k] each, of `experts`.
struct Routing {
  ValueId who, share;
  int64_t experts = 0;
};

// The values that correspond to each other in all experts; one value where they have a leading axis of experts.
using Family = std::vector<ValueId>;

// v without Cast between floats.
ValueId uncast(const Graph& g, ValueId v) {
  while (g.op(g.def(v)) == OpKind::Cast && is_float(g, g.operand(g.def(v), 0))) v = g.operand(g.def(v), 0);
  return v;
}

std::optional<Routing> routing_of(const Graph& g, ValueId v) {
  const NodeId n = g.def(uncast(g, v));
  if (g.op(n) != OpKind::ScatterElements || g.rank(g.result(n)) != 2) return std::nullopt;
  const auto& a = g.attrs<ScatterAttrs>(n);
  const auto zero = scalar(g, g.operand(n, 0));
  NodeId best = g.def(g.operand(n, 1));
  if (g.op(best) == OpKind::Cast) best = g.def(g.operand(best, 0));
  if (a.axis != 1 || a.reduction != Reduction::None || !zero || *zero != 0 || g.op(best) != OpKind::TopK) return std::nullopt;
  if (g.attrs<TopKAttrs>(best).axis != 1 || g.attrs<TopKAttrs>(best).k != g.dims(g.operand(n, 1))[1]) return std::nullopt;
  const auto experts = size_at(g, g.result(n), 1);
  if (!experts) return std::nullopt;
  return Routing{g.operand(n, 1), g.operand(n, 2), *experts};
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

// Builds one expert on rows that choose theirs. False values mean that the experts are not alike.
class Rows {
 public:
  Rows(Graph& g, NodeId root, const Routing& r, bool batched) : g_(g), b_(g, nullptr, root), routing_(r), batched_(batched) {
    const auto d = g.dims(r.who);
    tokens_ = d[0], k_ = d[1], rows_ = b_.dims().mul(tokens_, k_);
    expert_ = b_.reshape(r.who, {rows_});
    if (g_.dtype(expert_) != DType::I32) expert_ = b_.cast(expert_, DType::I64);
  }

  ValueId of(const Family& f) {
    if (const auto it = made_.find(f); it != made_.end()) return it->second;
    if (made_.size() >= kMostNodes) return {};
    return made_[f] = build(f);
  }

  // The rows of each token, times its shares, added up.
  ValueId combined(ValueId y, ValueId like) {
    const Dim width = g_.dims(y).back();
    const ValueId share = b_.reshape(b_.cast(routing_.share, g_.dtype(y)), {tokens_, k_, Dim(1)});
    const ValueId parts = b_.mul(b_.reshape(y, {tokens_, k_, width}), share);
    return b_.reshape(b_.reduce(ReduceOp::Sum, parts, {1}, false), {g_.dims(like).begin(), g_.dims(like).end()});
  }

  Dim rows() const { return rows_; }
  std::vector<NodeId> dense;  // the nodes of all experts
  std::vector<NodeId> made;   // products of rows

 private:
  bool has_experts(ValueId v) const { return g_.rank(v) == 3 && g_.dims(v)[0] == Dim(routing_.experts); }

  // A value [tokens, n] that all experts read; invalid when they read different ones.
  ValueId shared(const Family& f) const {
    ValueId v = f[0];
    if (batched_) {
      for (int steps = 0; steps < 4; ++steps) {
        const NodeId n = g_.def(v);
        const bool repeats = g_.op(n) == OpKind::Expand || g_.op(n) == OpKind::Tile, moves = g_.op(n) == OpKind::Reshape;
        if (!(repeats || moves) || g_.rank(g_.operand(n, 0)) < 2) break;
        v = g_.operand(n, 0);
        if (g_.rank(v) == 2 && g_.dims(v)[0] == tokens_) break;
        if (g_.rank(v) == 2) continue;  // rows of all experts, one after the other
        if (g_.dims(v)[0] != Dim(1) || g_.dims(v)[1] != tokens_) return {};
      }
    } else if (std::ranges::any_of(f, [&](ValueId o) { return o != v; })) {
      return {};
    }
    const auto d = g_.dims(v);
    const bool plain = d.size() == 2 && d[0] == tokens_, leading = d.size() == 3 && d[0] == Dim(1) && d[1] == tokens_;
    return (plain || leading) && d.back() == g_.dims(f[0]).back() ? v : ValueId();
  }

  ValueId repeated(ValueId v) {
    const Dim width = g_.dims(v).back();
    const ValueId token = b_.reshape(v, {tokens_, Dim(1), width});
    return b_.reshape(b_.expand(token, {tokens_, k_, width}), {rows_, width});
  }

  // Weights of all experts, [experts, sizes...].
  ValueId stacked(const Family& f, const std::vector<Dim>& sizes) {
    std::vector<Dim> all{Dim(routing_.experts)};
    all.insert(all.end(), sizes.begin(), sizes.end());
    if (batched_) return num_elements(g_.type(f[0])) ? b_.reshape(f[0], all) : ValueId();
    all[0] = Dim(1);
    std::vector<ValueId> parts;
    for (ValueId v : f) parts.push_back(b_.reshape(v, all));
    return b_.concat(parts, 0);
  }

  bool are_weights(const Family& f) const {
    return std::ranges::all_of(f, [&](ValueId v) { return is_weight(g_, v) && same_type(g_, v, f[0]); });
  }

  // An operand of an elementwise operation: numbers for all, numbers for each expert, or rows.
  ValueId operand(const Family& f) {
    if (scalar(g_, f[0]) && std::ranges::all_of(f, [&](ValueId v) { return scalar(g_, v) == scalar(g_, f[0]); }))
      return b_.scalar(g_.dtype(f[0]), *scalar(g_, f[0]));
    if (!are_weights(f)) return of(f);
    const auto d = g_.dims(f[0]);
    const bool per_expert = batched_ ? has_experts(f[0]) && d[1] == Dim(1) : d.size() == 1 || (d.size() == 2 && d[0] == Dim(1));
    if (!per_expert) return {};
    return b_.create(OpKind::Gather, {stacked(f, {d.back()}), expert_}, AxisAttrs{0});
  }

  ValueId build(const Family& f) {
    if (const ValueId v = shared(f); v.valid() && !is_weight(g_, v)) return repeated(v);
    const NodeId n = g_.def(f[0]);
    if (batched_ ? !has_experts(f[0]) : g_.rank(f[0]) != 2) return {};
    for (ValueId v : f) {
      const NodeId o = g_.def(v);
      if (g_.op(o) != g_.op(n) || g_.attr_id(o) != g_.attr_id(n) || !same_type(g_, v, f[0]) ||
          g_.operands(o).size() != g_.operands(n).size())
        return {};
      dense.push_back(o);
    }
    const auto operands = [&](size_t i) {
      Family all;
      for (ValueId v : f) all.push_back(g_.operand(g_.def(v), i));
      return all;
    };
    if (g_.op(n) == OpKind::MatMul) {
      const auto& a = g_.attrs<MatMulAttrs>(n);
      const Family w = operands(1);
      const auto d = g_.dims(w[0]);
      if (a.trans_a || !are_weights(w) || (batched_ ? !has_experts(w[0]) : d.size() != 2)) return {};
      const ValueId x = of(operands(0)), all = stacked(w, {d[d.size() - 2], d.back()});
      const ValueId y = b_.create(OpKind::GroupedMatMul, {x, all, expert_}, MatMulAttrs{false, a.trans_b});
      if (y.valid()) made.push_back(g_.def(y));
      return y;
    }
    if (!has_trait(g_.op(n), kElementwise)) return {};
    std::vector<ValueId> in;
    for (size_t i = 0; i < g_.operands(n).size(); ++i) {
      in.push_back(operand(operands(i)));
      if (!in.back().valid()) return {};
    }
    return b_.create(g_.op(n), in, g_.module().attrs[g_.attr_id(n)]);
  }

  Graph& g_;
  Builder b_;
  const Routing& routing_;
  bool batched_;
  Dim tokens_, k_, rows_;
  ValueId expert_;
  std::map<Family, ValueId> made_;
};

class Mixtures {
 public:
  Mixtures(Graph& g, PassContext& context) : g_(g), context_(context) {}

  bool visit(NodeId n) { return g_.op(n) == OpKind::Add ? written_out(n) : with_axis(n); }

 private:
  // A sum of expert_e * share[:, e] over all e.
  bool written_out(NodeId root) {
    if (const NodeId user = g_.only_user(g_.result(root)); user.valid() && g_.op(user) == OpKind::Add) return false;
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
      if (terms.size() > 1024) return false;
    }
    Family experts(terms.size());
    ValueId shares;
    for (ValueId t : terms) {
      const NodeId mul = made_by(g_, t, OpKind::Mul);
      if (!mul.valid()) return false;
      bool found = false;
      for (size_t i = 0; i < 2 && !found; ++i) {
        const auto column = column_of(g_, g_.operand(mul, i));
        if (!column || column->second < 0 || column->second >= static_cast<int64_t>(terms.size())) continue;
        ValueId& expert = experts[static_cast<size_t>(column->second)];
        if (expert.valid() || (shares.valid() && shares != column->first)) return false;
        expert = g_.operand(mul, 1 - i), shares = column->first, found = true;
      }
      if (!found) return false;
      sums.push_back(mul);
    }
    const auto routing = shares.valid() ? routing_of(g_, shares) : std::nullopt;
    if (!routing || routing->experts != static_cast<int64_t>(terms.size())) return false;
    return emit(root, *routing, experts, false, sums);
  }

  // Sum over the leading axis of experts * shares, transposed.
  bool with_axis(NodeId root) {
    const auto& a = g_.attrs<ReduceAttrs>(root);
    const NodeId mul = made_by(g_, g_.operand(root, 0), OpKind::Mul);
    if (a.op != ReduceOp::Sum || a.axes != std::vector<int64_t>{0} || a.keep_dim || !mul.valid()) return false;
    for (size_t i = 0; i < 2; ++i) {
      NodeId n = g_.def(g_.operand(mul, i));
      while (g_.op(n) == OpKind::Reshape || g_.op(n) == OpKind::Cast) n = g_.def(g_.operand(n, 0));
      if (g_.op(n) != OpKind::Transpose || g_.rank(g_.result(n)) != 2) continue;
      const auto routing = routing_of(g_, g_.operand(n, 0));
      const auto d = g_.dims(g_.operand(mul, i));
      if (!routing || d.size() != 3 || d[0] != Dim(routing->experts) || d[2] != Dim(1)) continue;
      const std::vector<NodeId> sums{mul, root};
      return emit(root, *routing, {g_.operand(mul, 1 - i)}, true, sums);
    }
    return false;
  }

  double time_of(NodeId n) const {
    if (has_trait(g_.op(n), kLeaf) || view_of(g_, n) || is_weight(g_, g_.result(n))) return 0;
    Cost c = node_cost(g_, n);
    if (g_.op(n) == OpKind::GroupedMatMul) c.flops *= kRowsSlower;
    return launch_time_ns(c, context_.target.machine);
  }

  bool emit(NodeId root, const Routing& routing, const Family& experts, bool batched, std::span<const NodeId> sums) {
    const auto decline = [&](std::string_view reason, std::string detail) {
      context_.decisions.push_back(declined(g_, kPattern, root, reason, std::move(detail)));
      return false;
    };
    const size_t before = g_.node_capacity();
    Rows rows(g_, root, routing, batched);
    const ValueId y = rows.of(experts);
    const auto give_up = [&](std::string_view reason, std::string detail) {
      for (size_t i = g_.node_capacity(); i-- > before;)
        if (g_.alive(NodeId(i))) sweep(g_, NodeId(i));
      return decline(reason, std::move(detail));
    };
    if (!y.valid() || rows.made.empty()) return give_up("unlike", "the experts are not one graph over different weights");
    const ValueId whole = rows.combined(y, g_.result(root));
    fuse::CostDecision time;
    for (NodeId n : rows.dense) time.apart_ns += time_of(n);
    for (NodeId n : sums) time.apart_ns += time_of(n);
    for (size_t i = before; i < g_.node_capacity(); ++i)
      if (g_.alive(NodeId(i))) time.together_ns += time_of(NodeId(i));
    if (!time.pays()) return give_up("cost", time.detail());
    std::vector<NodeId> members(sums.begin(), sums.end());
    members.insert(members.end(), rows.dense.begin(), rows.dense.end());
    context_.decisions.push_back(fused(g_, kPattern, root, members));
    context_.decisions.back().detail = std::to_string(routing.experts) + " experts";
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
    bool routes = false;  // only such graphs are looked at
    for (NodeId n : g.nodes()) routes = routes || g.op(n) == OpKind::ScatterElements;
    if (!routes) return;
    Mixtures mixtures(g, context);
    for (NodeId n : g.nodes())
      if ((g.op(n) == OpKind::Add || g.op(n) == OpKind::Reduce) && is_float(g, g.result(n)))
        found += context.rewrite([&] { return mixtures.visit(n); });
  });
  return {found > 0, {{"mixtures", found}}};
}

}  // namespace rlxc
