#include "passes/legalise/unfuse_elementwise_regions.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/graphs.h"
#include "ir/region.h"
#include "passes/fuse/region_step.h"
#include "passes/passes.h"

namespace rlxc {

namespace {

// The results of a ConcatRegion, given the values of its steps.
std::vector<ValueId> concatenated(Builder& b, NodeId n, std::span<const ValueId> values) {
  Graph& g = b.graph();
  const ConcatRegionAttrs a = g.attrs<ConcatRegionAttrs>(n);
  const size_t count = a.parts.size() / static_cast<size_t>(a.results);
  std::vector<ValueId> results, parts;
  for (int64_t step : a.parts) {
    parts.push_back(b.expand(values[static_cast<size_t>(step)], part_dims(g, n, static_cast<size_t>(step))));
    if (parts.size() < count) continue;
    results.push_back(b.concat(parts, a.axis));
    parts.clear();
  }
  return results;
}

}  // namespace

std::vector<ValueId> unfuse_region(Graph& g, NodeId n) {
  Builder b(g, nullptr, n);
  const bool joins = g.op(n) == OpKind::ConcatRegion;
  // A copy, because attributes move when nodes are created.
  const FusionAttrs a = joins ? FusionAttrs{g.attrs<ConcatRegionAttrs>(n).steps} : g.attrs<FusionAttrs>(n);
  const std::vector<RegionStep>& steps = a.steps;
  const bool attention = g.op(n) == OpKind::QAttention;
  const std::vector<Dim> dims(g.dims(g.result(n)).begin(), g.dims(g.result(n)).end());
  const std::vector<Dim> whole = joins ? row_dims(g, n) : attention ? dims : whole_dims(g, n);
  std::vector<ValueId> values, operands;
  ValueId sums;
  const bool two = g.op(n) == OpKind::FusedQMatMul && has_two_sums(steps);
  const auto half = [&](Dim first) { return b.narrow(sums, g.rank(sums) - 1, first, dims.back()); };
  for (const RegionStep& s : steps) {
    operands.clear();
    for (size_t i = 0; i < argument_count(s); ++i) {
      const uint16_t from = s.args[i];
      operands.push_back(from & RegionStep::kStep ? values[from & ~RegionStep::kStep] : g.operand(n, from));
    }
    const bool core = is_core(s);
    if (attention && s.op == OpKind::QMatMul) {
      const bool first = values.empty();
      const auto operand = [&](size_t i) { return i < g.operands(n).size() ? g.operand(n, i) : ValueId(); };
      operands = {first ? g.operand(n, 0) : values.back(), operand(first ? 1 : 2), operand(first ? 3 : 5),
                  operand(first ? 4 : 6)};
    } else if (s.op == OpKind::QMatMul && !values.empty()) {
      values.push_back(half(dims.back()));
      continue;
    } else if (s.op == OpKind::QMatMul || s.op == OpKind::QConv) {
      const auto all = g.operands(n);
      operands.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kQuantOperands)));
      if (rounds_operand(g, n)) {
        const ValueId scale = b.reshape(g.operand(n, kQuantOperands), {}), zero = b.reshape(operands[2], {});
        operands[0] = b.create(OpKind::Quantize, {operands[0], scale, zero}, QuantAttrs{.to = g.dtype(zero)});
      }
    } else if (core && !attention) {
      operands[0] = b.expand(operands[0], whole);
    }
    const bool is_softmax = attention && s.op == OpKind::Softmax;
    const ValueId v = b.create(s.op, operands, is_softmax ? Attrs(AxisAttrs{std::ssize(dims) - 1}) : attrs_of_step(s));
    if (!v.valid()) return {};
    g.set_origin(g.def(v), g.origin(n));
    if (two && values.empty()) sums = v;
    values.push_back(two && values.empty() ? half(Dim(0)) : v);
  }
  if (joins) return concatenated(b, n, values);
  std::vector<ValueId> results{b.expand(values.back(), dims)};
  for (const int64_t step : a.also) results.push_back(b.expand(values[static_cast<size_t>(step)], dims));
  return results;
}

PassResult unfuse_elementwise_regions(Module& m, PassContext& context) {
  const TargetTraits& t = context.target;
  const bool native = t.native[static_cast<size_t>(OpKind::ElementwiseRegion)];
  int64_t unfused = 0;
  for (GraphId id : graphs_in_use(m)) {
    Graph& g = m.graph(id);
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::ElementwiseRegion) continue;
      const auto& steps = g.attrs<FusionAttrs>(n).steps;
      const bool fits = steps.size() <= t.region_max_steps && g.operands(n).size() <= t.region_max_inputs &&
                        (t.integer_fusions || g.result_count(n) == 1);
      if (native && fits && std::ranges::all_of(steps, [&](const RegionStep& s) { return t.native[static_cast<size_t>(s.op)]; }))
        continue;
      const std::vector<ValueId> v = unfuse_region(g, n);
      if (v.empty()) {
        context.diagnostics.error(Code::Internal, "a region does not type-check step by step", "node " + g.label(n).quoted());
        continue;
      }
      for (size_t i = 0; i < v.size(); ++i) g.replace_all_uses(g.result(n, i), v[i]);
      g.erase(n);
      ++unfused;
    }
  }
  return {unfused > 0, {{"regions_unfused", unfused}}};
}

}  // namespace rlxc
