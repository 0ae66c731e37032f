#include "transform/tangents.h"

#include <algorithm>

#include "transform/duals.h"
#include "transform/expansion.h"
#include "transform/paths.h"
#include "transform/rules.h"

namespace rlxc::transform {

DualRule find_dual(OpKind op) {
  static const auto table = [] {
    std::vector<DualRule> rules(kOpCount);
    for (std::span<const DualEntry> entries :
         {elementwise_duals(), movement_duals(), reduction_duals(), linear_duals(), control_duals()})
      for (const DualEntry& e : entries) rules[static_cast<size_t>(e.op)] = e.rule;
    return rules;
  }();
  return table[static_cast<size_t>(op)];
}

Term Dual::t_or_zeros(size_t i) const { return moves(i) ? t(i) : zeros(b, derivative_dtype(graph, in(i).v), in(i).dims()); }

Term Dual::again(std::initializer_list<Term> first) const {
  std::vector<ValueId> operands(graph.operands(node).begin(), graph.operands(node).end());
  size_t i = 0;
  for (const Term& x : first) {
    if (!x.valid()) return x;
    operands[i++] = x.v;
  }
  return {&b, b.create(graph.op(node), operands, b.module().attrs[graph.attr_id(node)])};
}

bool moves_alike(Dual& d) {
  d.give(d.again({d.t(0)}));
  return true;
}

namespace {

bool elementwise_dual(Dual& d) {
  double alpha = 0, beta = 0;
  slope_parameters(d.b.module().attrs[d.graph.attr_id(d.node)], &alpha, &beta);
  d.give(product(d.t(0), slope(d.graph.op(d.node), alpha, beta, d.in(0), d.out())));
  return true;
}

// The tangents of what the node consists of.
bool dual_by_expansion(Dual& d) {
  const Graph& g = d.graph;
  const std::vector<ValueId> operands(g.operands(d.node).begin(), g.operands(d.node).end());
  const std::vector<ValueId> made = expanded(d.b, g, d.node, operands, d.expand);
  if (made.empty()) return false;
  std::vector<ValueId> ys, xs, dxs, fixed;
  std::vector<size_t> of;
  for (size_t r = 0; r < made.size(); ++r)
    if (is_float_tensor(g, made[r])) {
      ys.push_back(made[r]);
      of.push_back(r);
    }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!d.has(i)) continue;
    const bool first = std::ranges::find(operands, operands[i]) == operands.begin() + static_cast<std::ptrdiff_t>(i);
    if (!d.moves(i)) fixed.push_back(operands[i]);
    else if (first) {
      xs.push_back(operands[i]);
      dxs.push_back(d.t(i).v);
    }
  }
  Diagnostics inner;
  const auto t = tangents(d.b, ys, xs, dxs, fixed, inner, d.expand);
  if (!t) {
    d.inside = inner.items()[0].message;
    return false;
  }
  for (size_t k = 0; k < ys.size(); ++k) d.give({&d.b, (*t)[k]}, of[k]);
  return true;
}

}  // namespace

std::optional<std::vector<ValueId>> tangents(Builder& b, std::span<const ValueId> ys, std::span<const ValueId> xs,
                                             std::span<const ValueId> dxs, std::span<const ValueId> fixed,
                                             Diagnostics& diagnostics, Expand expand) {
  const Graph& g = b.graph();
  const size_t errors = diagnostics.errors();
  if (!are_values(g, {ys, xs, dxs, fixed}) || xs.size() != dxs.size()) {
    diagnostics.error(Code::Internal, "a value of a tangent could not be built");
    return std::nullopt;
  }
  const Between way = between(g, ys, xs, fixed, Follow::Derivatives);
  std::vector<ValueId> moved(way.reached.size());
  for (size_t i = 0; i < xs.size(); ++i) moved[xs[i].raw] = dxs[i];
  for (NodeId n : way.nodes) {
    std::vector<ValueId> given;
    for (ValueId v : g.operands(n)) given.push_back(v.valid() ? moved[v.raw] : v);
    if (std::ranges::none_of(given, [](ValueId v) { return v.valid(); })) continue;
    const OpKind op = g.op(n);
    const DualRule rule = has_slope(op) ? elementwise_dual : find_dual(op);
    Dual d(b, n, given, expand);
    const bool known = (rule && rule(d)) || dual_by_expansion(d);
    if (!known) add_unknown(diagnostics, "tangent", g, n, rule != nullptr, d.inside);
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      if (!way.reached[v.raw] || std::ranges::find(xs, v) != xs.end()) continue;
      const std::vector<Dim> dims(g.dims(v).begin(), g.dims(v).end());
      // Results of what is not known get something, so that those after it that lack a rule are named as well.
      if (!known) moved[v.raw] = zeros(b, derivative_dtype(g, v), dims).v;
      else if (d.results[r].valid()) moved[v.raw] = b.cast(b.expand(d.results[r].v, dims), derivative_dtype(g, v));
    }
  }
  if (diagnostics.errors() != errors) return std::nullopt;
  std::vector<ValueId> out;
  for (ValueId y : ys) out.push_back(moved[y.raw]);
  return out;
}

}  // namespace rlxc::transform
