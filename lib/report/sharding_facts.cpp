#include "report/sharding_facts.h"

#include <cmath>

#include "analysis/phases.h"
#include "support/number.h"

namespace rlxc::report {
namespace {

Exchange exchange_of(const Graph& g, NodeId n, const ExchangeCost& cost) {
  return {g.label(n).bytes(), std::string(name(g.op(n))), g.attrs<CollectiveAttrs>(n).along, cost.devices, cost.bytes, cost.ns};
}

}  // namespace

ShardingFacts sharding_facts(const LirModule& lir, const Machine& machine, const Link& link) {
  const Graph& g = lir.module->main();
  const GraphPlan& plan = lir.plans[0];
  const auto stages = stages_of(g);
  ShardingFacts f(mesh_of(*lir.module).value_or(Mesh{}), g);
  f.weight_bytes.resize(f.clock.stages().size());
  if (stages) f.stage_axis = stages->axis;
  for (NodeId n : plan.schedule) {
    const OpKind op = g.op(n);
    const bool runs = plan.phase[n.raw] != Phase::Prologue;
    f.attentions += op == OpKind::Attention;
    if (is_weight(op) || is_weight_slice(g, n)) {
      const Slot& s = plan.slot[g.result(n).raw];
      if (s.region != Region::Weights || !s.size.is_static()) continue;
      const ValueId whole = is_weight(op) ? g.result(n) : g.operand(n, 0);
      const Symbol name = g.value_name(whole);
      const HeldWeight w{name.valid() ? lir.module->text(name) : g.label(n), static_cast<uint64_t>(s.size.size()),
                         byte_size(g.type(whole)).value_or(0)};
      for (size_t s = 0; s < f.weight_bytes.size(); ++s)
        if (!stages || stages->computes(static_cast<int64_t>(s), n)) f.weight_bytes[s] += w.bytes;
      f.whole_weight_bytes += w.whole_bytes;
      if (op == OpKind::DeviceSlice) f.weights.push_back(w);
    } else if (exchanges_data(op) && runs) {
      f.exchanges.push_back(exchange_of(g, n, f.clock.exchange(n, link)));
    } else if (runs && !has_trait(op, kLeaf | kBody | kTerminator) && !plan.layouts.is_view(g, n)) {
      f.clock.compute(n, launch_time_ns(node_cost(g, n), machine));
    }
  }
  return f;
}

std::string_view ShardingFacts::limit() const {
  const RunClock::Stage& s = clock.busiest();
  if (clock.end_ns() > 2 * (s.compute_ns + s.exchange_ns)) return "stages";
  return s.exchange_ns > s.compute_ns ? "exchange" : "compute";
}

std::map<std::string, ExchangeSum> ShardingFacts::sums() const {
  std::map<std::string, ExchangeSum> out;
  for (const Exchange& e : exchanges) {
    std::string key = e.op + " over";
    for (const std::string& axis : e.along) key += " " + axis;
    ExchangeSum& s = out[key];
    ++s.count, s.bytes += e.bytes, s.ns += e.ns;
  }
  return out;
}

std::string activations_text(const LirModule& lir) {
  const Dim arena = lir.plans[0].arena_size;
  return arena.is_static() ? human_bytes(static_cast<uint64_t>(arena.size())) : lir.module->dims.text(arena) + " bytes";
}

std::string milliseconds(double ns) { return shortest(std::round(ns / 1e3) / 1e3) + " ms"; }

}  // namespace rlxc::report
