// A memory plan without buffer reuse except for views, for tests of later stages.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "analysis/phases.h"
#include "analysis/views.h"
#include "ir/lir.h"

namespace rlxc::test {

inline Dim bytes_of_value(Graph& g, ValueId v) {
  DimTable& dims = g.module().dims;
  return dims.mul(dims.product(g.dims(v)), Dim(bits(g.dtype(v)) / 8));
}

inline GraphPlan bump_plan(Graph& g, uint64_t alignment) {
  DimTable& dims = g.module().dims;
  const auto align = static_cast<int64_t>(alignment);
  GraphPlan plan;
  plan.layouts = assign_layouts(g);
  plan.step.resize(g.node_capacity());
  plan.phase = derive_phases(g);
  plan.slot.resize(g.value_capacity());
  plan.body_offset.resize(g.node_capacity());
  plan.method = "bump";
  std::vector<uint32_t> last(g.value_capacity());
  for (NodeId n : g.nodes()) {
    plan.step[n.raw] = static_cast<uint32_t>(plan.schedule.size());
    plan.schedule.push_back(n);
    for (ValueId v : g.operands(n))
      if (v.valid()) last[v.raw] = plan.step[n.raw];
  }
  const auto end = static_cast<uint32_t>(plan.schedule.size());
  for (ValueId v : g.outputs()) last[v.raw] = end;
  uint32_t inputs = 0;
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      if (g.type(v).kind != TypeKind::Tensor) continue;
      Slot& s = plan.slot[v.raw];
      s.root = plan.layouts.root[v.raw];
      s.size = bytes_of_value(g, v);
      s.first_step = plan.step[n.raw];
      s.last_step = std::max(s.first_step, last[v.raw]);
      if (s.root != v) {
        const Slot& owner = plan.slot[s.root.raw];
        s.view = true, s.region = owner.region, s.index = owner.index;
        s.offset = dims.add(owner.offset, plan.layouts.offset[v.raw]);
      } else if (g.op(n) == OpKind::Input) {
        s.region = Region::Input, s.index = inputs++;
      } else if (has_trait(g.op(n), kLeaf)) {
        s.region = Region::Weights;
      } else {
        Dim& top = plan.phase[n.raw] == Phase::Prologue ? plan.packed_size : plan.arena_size;
        s.region = plan.phase[n.raw] == Phase::Prologue ? Region::Packed : Region::Activations;
        s.offset = top;
        top = dims.mul(dims.ceil_div(dims.add(top, s.size), Dim(align)), Dim(align));
        if (s.region == Region::Activations && s.size.is_static()) plan.without_reuse += static_cast<uint64_t>(s.size.size());
      }
      plan.symbolic |= !s.size.is_static();
    }
  plan.given_arena = plan.arena_size;
  if (plan.symbolic) return plan;
  std::vector<uint64_t> live(plan.schedule.size() + 1);
  for (size_t v = 0; v < plan.slot.size(); ++v)
    if (const Slot& s = plan.slot[v]; s.region == Region::Activations && s.root == ValueId(v))
      for (uint32_t t = s.first_step; t <= s.last_step; ++t) live[t] += static_cast<uint64_t>(s.size.size());
  for (size_t t = 0; t < live.size(); ++t)
    if (live[t] > plan.lower_bound) plan.lower_bound = live[t], plan.peak_step = static_cast<uint32_t>(t);
  for (size_t v = 0; v < plan.slot.size(); ++v)
    if (const Slot& s = plan.slot[v]; s.region == Region::Activations && s.root == ValueId(v) && s.first_step <= plan.peak_step &&
                                      plan.peak_step <= s.last_step)
      plan.peak_values.push_back(ValueId(v));
  return plan;
}

inline LirModule bump_lir(std::unique_ptr<Module> m) {
  LirModule lir;
  lir.module = std::move(m);
  for (size_t i = 0; i < lir.module->graph_count(); ++i)
    lir.plans.push_back(bump_plan(lir.module->graph(GraphId(i)), lir.alignment));
  lir.module->stage = Stage::Lir;
  return lir;
}

}  // namespace rlxc::test
