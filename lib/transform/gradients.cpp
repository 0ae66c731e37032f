#include "transform/gradients.h"

#include <algorithm>

#include "transform/expansion.h"
#include "transform/paths.h"
#include "transform/rules.h"

namespace rlxc::transform {

Rule find_rule(OpKind op) {
  static const auto table = [] {
    std::vector<Rule> rules(kOpCount);
    for (std::span<const RuleEntry> entries : {movement_rules(), reduction_rules(), linear_rules(), attention_rules(),
                                               control_rules(), recurrent_rules(), quantized_rules(), selection_rules()})
      for (const RuleEntry& e : entries) rules[static_cast<size_t>(e.op)] = e.rule;
    return rules;
  }();
  return table[static_cast<size_t>(op)];
}

Term Adjoint::g(size_t result) {
  if (gradients_[result].valid()) return {&b, gradients_[result]};
  const Term y = out(result);
  return zeros(b, derivative_dtype(graph, y.v), y.dims());
}

namespace {

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
  slope_parameters(a.b.module().attrs[a.graph.attr_id(a.node)], &alpha, &beta);
  a.give(0, product(a.g(), slope(a.graph.op(a.node), alpha, beta, a.in(0), a.out())));
  return true;
}

// The gradient of what the node consists of.
bool back_by_expansion(Adjoint& a) {
  a.parts.clear();
  const Graph& g = a.graph;
  const std::vector<ValueId> operands(g.operands(a.node).begin(), g.operands(a.node).end());
  const std::vector<ValueId> results = expanded(a.b, g, a.node, operands, a.expand);
  std::vector<ValueId> ys, seeds, wrt, fixed;
  for (size_t r = 0; r < results.size(); ++r)
    if (a.has_gradient(r)) {
      ys.push_back(results[r]);
      seeds.push_back(a.g(r).v);
    }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (a.has(i)) fixed.push_back(operands[i]);
    if (a.wants(i) && std::ranges::find(wrt, operands[i]) == wrt.end()) wrt.push_back(operands[i]);
  }
  if (ys.empty()) return false;
  Diagnostics inner;
  const auto made = gradients(a.b, ys, seeds, wrt, fixed, inner, a.expand);
  if (!made) {
    a.inside = inner.items()[0].message;
    return false;
  }
  for (size_t i = 0; i < wrt.size(); ++i) a.parts.push_back({wrt[i], {&a.b, (*made)[i]}});
  return true;
}

}  // namespace

std::optional<std::vector<ValueId>> gradients(Builder& b, std::span<const ValueId> ys, std::span<const ValueId> seeds,
                                              std::span<const ValueId> wrt, std::span<const ValueId> fixed,
                                              Diagnostics& diagnostics, Expand expand) {
  const Graph& g = b.graph();
  const size_t errors = diagnostics.errors();
  const auto dims_of = [&](ValueId v) { return std::vector<Dim>(g.dims(v).begin(), g.dims(v).end()); };
  const auto no_gradient = [&](ValueId v) {
    diagnostics.error(Code::BadType, "a value of type " + text(g.type(v), b.dims()) + " has no gradient");
  };
  if (!are_values(g, {ys, wrt, fixed})) {
    diagnostics.error(Code::Internal, "a value of a gradient could not be built");
    return std::nullopt;
  }
  const Between way = between(g, ys, wrt, fixed, Follow::Derivatives);
  const std::vector<bool>& active = way.reached;
  std::vector<std::vector<ValueId>> parts(active.size());
  for (size_t i = 0; i < ys.size(); ++i) {
    if (!is_float_tensor(g, ys[i]) && !active[ys[i].raw]) {
      no_gradient(ys[i]);
      return std::nullopt;
    }
    parts[ys[i].raw].push_back(
        i < seeds.size() && seeds[i].valid() ? seeds[i] : b.expand(b.scalar(derivative_dtype(g, ys[i]), 1), dims_of(ys[i])));
  }
  for (auto n = way.nodes.rbegin(); n != way.nodes.rend(); ++n) {
    std::vector<ValueId> given;
    for (size_t r = 0; r < g.result_count(*n); ++r) {
      const ValueId v = g.result(*n, r);
      given.push_back(std::ranges::find(wrt, v) == wrt.end() ? total(b, std::move(parts[v.raw])) : ValueId());
    }
    if (std::ranges::none_of(given, [](ValueId v) { return v.valid(); })) continue;
    const Rule rule = has_slope(g.op(*n)) ? elementwise_back : find_rule(g.op(*n));
    Adjoint a(b, *n, given, active, expand);
    if ((!rule || !rule(a)) && !back_by_expansion(a)) {
      add_unknown(diagnostics, "gradient", g, *n, rule != nullptr, a.inside);
      // Its operands get something, so that those before it that lack a rule are named as well.
      a.parts.clear();
      for (size_t i = 0; i < g.operands(*n).size(); ++i)
        if (a.wants(i)) a.give(i, zeros(b, derivative_dtype(g, a.in(i).v), a.in(i).dims()));
    }
    for (const auto& [of, value] : a.parts) {
      const Term own = value.valid() ? Term{&b, b.cast(value.v, derivative_dtype(g, of))} : value;
      if (const Term part = own.valid() ? unbroadcast(own, dims_of(of)) : own; part.valid()) parts[of.raw].push_back(part.v);
      else diagnostics.error(Code::Internal, "the gradient of " + g.label(*n).quoted() + " could not be built");
    }
  }
  if (diagnostics.errors() != errors) return std::nullopt;
  std::vector<ValueId> out;
  for (ValueId x : wrt) {
    if (!is_float_tensor(g, x) && parts[x.raw].empty()) {
      no_gradient(x);
      return std::nullopt;
    }
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
    if (from[i] != to[i]) {
      sources.push_back(from[i]);
      map[from[i].raw] = to[i];
    }
  const auto mapped = [&](ValueId v) { return v.valid() && v.raw < map.size() && map[v.raw].valid() ? map[v.raw] : v; };
  for (NodeId n : between(g, std::array{y}, sources, from, Follow::Everything).nodes) {
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
  return between(g, std::array{y}, std::array{x}, {}, Follow::Everything).reached[y.raw];
}

}  // namespace rlxc::transform
