#include "transform/gradients.h"

#include <algorithm>

#include "transform/rules.h"

namespace rlxc::transform {

Rule find_rule(OpKind op) {
  static const auto table = [] {
    std::vector<Rule> rules(kOpCount);
    for (std::span<const RuleEntry> entries : {movement_rules(), reduction_rules(), linear_rules(), attention_rules(),
                                               control_rules(), recurrent_rules(), selection_rules()})
      for (const RuleEntry& e : entries) rules[static_cast<size_t>(e.op)] = e.rule;
    return rules;
  }();
  return table[static_cast<size_t>(op)];
}

Term Adjoint::g(size_t result) {
  if (gradients_[result].valid()) return {&b, gradients_[result]};
  const Term y = out(result);
  return zeros(b, y.dtype(), y.dims());
}

namespace {

bool carries_gradient(const Graph& g, ValueId v) { return g.type(v).kind == TypeKind::Tensor && is_float(g.dtype(v)); }

// The nodes between `sources` and y, in order: those that depend on a source and on which y depends. `reached`: their values and
// the sources themselves. Nothing is looked up beyond a source or a value of `fixed`.
std::vector<NodeId> nodes_between(const Graph& g, ValueId y, std::span<const ValueId> sources, std::span<const ValueId> fixed,
                                  bool floats_only, std::vector<bool>* reached) {
  std::vector<bool> stops(g.value_capacity()), needed(g.value_capacity());
  reached->assign(g.value_capacity(), false);
  for (ValueId v : fixed) stops[v.raw] = true;
  for (ValueId v : sources) stops[v.raw] = (*reached)[v.raw] = true;
  std::vector<NodeId> order;
  for (NodeId n : g.nodes()) order.push_back(n);
  needed[y.raw] = true;
  for (auto n = order.rbegin(); n != order.rend(); ++n) {
    bool wanted = false;
    for (size_t r = 0; r < g.result_count(*n); ++r) wanted |= needed[g.result(*n, r).raw] && !stops[g.result(*n, r).raw];
    if (wanted)
      for (ValueId v : g.operands(*n))
        if (v.valid()) needed[v.raw] = true;
  }
  std::vector<NodeId> between;
  for (NodeId n : order) {
    const auto from = [&](ValueId v) { return v.valid() && (*reached)[v.raw]; };
    if (std::ranges::none_of(g.operands(n), from)) continue;
    bool joins = false;
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      if (!needed[v.raw] || stops[v.raw] || (floats_only && !carries_gradient(g, v))) continue;
      (*reached)[v.raw] = joins = true;
    }
    if (joins) between.push_back(n);
  }
  return between;
}

// Sums over the axes along which `part` is larger than `to`.
Term unbroadcast(Term part, const std::vector<Dim>& to) {
  const std::vector<Dim> from = part.dims();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t lead = from.size() - std::min(from.size(), to.size());
    if (i < lead || (to[i - lead] == Dim(1) && from[i] != Dim(1))) axes.push_back(static_cast<int64_t>(i));
  }
  return reshape(sum(part, axes), to);
}

ValueId total(Builder& b, std::vector<ValueId> parts) {  // in pairs, so that the depth is the logarithm of their number
  while (parts.size() > 1) {
    std::vector<ValueId> sums;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) sums.push_back(b.add(parts[i], parts[i + 1]));
    if (parts.size() % 2) sums.push_back(parts.back());
    parts = std::move(sums);
  }
  return parts.empty() ? ValueId() : parts[0];
}

bool elementwise_back(Adjoint& a) {
  double alpha = 0, beta = 0;
  const Attrs& attrs = a.b.module().attrs[a.graph.attr_id(a.node)];
  if (const auto* ab = std::get_if<AlphaBetaAttrs>(&attrs)) alpha = ab->alpha, beta = ab->beta;
  if (const auto* c = std::get_if<ClampAttrs>(&attrs)) alpha = c->min, beta = c->max;
  return a.give(0, a.g() * slope(a.graph.op(a.node), alpha, beta, a.in(0), a.out())), true;
}

}  // namespace

std::optional<std::vector<ValueId>> gradients(Builder& b, ValueId y, ValueId seed, std::span<const ValueId> wrt,
                                              std::span<const ValueId> fixed, Diagnostics& diagnostics) {
  const Graph& g = b.graph();
  const size_t errors = diagnostics.errors();
  const auto dims_of = [&](ValueId v) { return std::vector<Dim>(g.dims(v).begin(), g.dims(v).end()); };
  if (!carries_gradient(g, y))
    return diagnostics.error(Code::BadType, "a value of type " + text(g.type(y), b.dims()) + " has no gradient"), std::nullopt;
  std::vector<bool> active;
  const std::vector<NodeId> between = nodes_between(g, y, wrt, fixed, true, &active);
  std::vector<std::vector<ValueId>> parts(active.size());
  parts[y.raw].push_back(seed.valid() ? seed : b.expand(b.scalar(g.dtype(y), 1), dims_of(y)));
  for (auto n = between.rbegin(); n != between.rend(); ++n) {
    std::vector<ValueId> given;
    for (size_t r = 0; r < g.result_count(*n); ++r) {
      const ValueId v = g.result(*n, r);
      given.push_back(std::ranges::find(wrt, v) == wrt.end() ? total(b, std::move(parts[v.raw])) : ValueId());
    }
    if (std::ranges::none_of(given, [](ValueId v) { return v.valid(); })) continue;
    const Rule rule = has_slope(g.op(*n)) ? elementwise_back : find_rule(g.op(*n));
    Adjoint a(b, *n, given, active);
    if (!rule || !rule(a)) {
      diagnostics.error(Code::UnsupportedOp, "the gradient of " + g.label(*n).quoted() + " (" + std::string(name(g.op(*n))) +
                                                 (!rule              ? ") is not known"
                                                  : a.inside.empty() ? ") is not known for its attributes or sizes"
                                                                     : ") is not known: " + a.inside));
      // Its operands get something, so that those before it that lack a rule are named as well.
      a.parts.clear();
      for (size_t i = 0; i < g.operands(*n).size(); ++i)
        if (a.wants(i)) a.give(i, zeros(b, a.in(i).dtype(), a.in(i).dims()));
    }
    for (const auto& [of, value] : a.parts) {
      const Term own = value.valid() ? Term{&b, b.cast(value.v, g.dtype(of))} : value;
      if (const Term part = own.valid() ? unbroadcast(own, dims_of(of)) : own; part.valid()) parts[of.raw].push_back(part.v);
      else diagnostics.error(Code::Internal, "the gradient of " + g.label(*n).quoted() + " could not be built");
    }
  }
  if (diagnostics.errors() != errors) return std::nullopt;
  std::vector<ValueId> out;
  for (ValueId x : wrt) {
    if (!carries_gradient(g, x))
      return diagnostics.error(Code::BadType, "a value of type " + text(g.type(x), b.dims()) + " has no gradient"), std::nullopt;
    const ValueId d = total(b, std::move(parts[x.raw]));
    out.push_back(d.valid() ? d : zeros(b, g.dtype(x), dims_of(x)).v);
    parts[x.raw].assign(1, out.back());
  }
  return out;
}

ValueId substitute(Builder& b, ValueId y, std::span<const ValueId> from, std::span<const ValueId> to, Diagnostics& diagnostics) {
  Graph& g = b.graph();
  std::vector<ValueId> sources, map(g.value_capacity());
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != to[i]) sources.push_back(from[i]), map[from[i].raw] = to[i];
  std::vector<bool> reached;
  const auto mapped = [&](ValueId v) { return v.valid() && v.raw < map.size() && map[v.raw].valid() ? map[v.raw] : v; };
  for (NodeId n : nodes_between(g, y, sources, from, false, &reached)) {
    if (!g.bodies(n).empty()) {
      diagnostics.error(Code::UnsupportedOp,
                        g.label(n).quoted() + " (" + std::string(name(g.op(n))) + ") cannot be computed again with other inputs");
      return {};
    }
    std::vector<ValueId> operands;
    for (ValueId v : g.operands(n)) operands.push_back(mapped(v));
    const NodeId copy = b.create_node(g.op(n), operands, b.module().attrs[g.attr_id(n)]);
    if (!copy.valid()) return {};
    for (size_t r = 0; r < g.result_count(n); ++r) map[g.result(n, r).raw] = g.result(copy, r);
  }
  return mapped(y);
}

bool depends_on(const Graph& g, ValueId y, ValueId x) {
  std::vector<bool> reached;
  nodes_between(g, y, std::span(&x, 1), {}, false, &reached);
  return reached[y.raw];
}

}  // namespace rlxc::transform
