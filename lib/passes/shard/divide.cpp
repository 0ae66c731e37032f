#include "passes/shard/divide.h"

#include <algorithm>
#include <bit>

#include "passes/copy_graph.h"
#include "passes/provenance.h"
#include "passes/shard/buckets.h"
#include "passes/shard/pipeline.h"
#include "shard/partition.h"

namespace rlxc {

std::optional<shard::Shardings> shardings_of(const Graph& g, const Division& division, Diagnostics& d) {
  std::optional<shard::Shardings> s(std::in_place, g, division.mesh);
  for (const shard::Request& r : division.requests)
    if (!r.hint && !s->apply(r, d)) return std::nullopt;
  s->apply_hints(division.requests, d);
  for (const shard::AxisStrategy& a : division.strategies)
    if (a.strategy != "pipeline" && !shard::apply_strategy(g, a, *s, d)) return std::nullopt;
  s->propagate(d);
  return s;
}

bool divide(Graph& g, const Division& division, const PassContext& context, Diagnostics& d, bool* changed) {
  const auto s = shardings_of(g, division, d);
  if (!s) return false;
  *changed = shard::partition(g, *s);
  *changed |= join_exchanges(g);
  const auto pipeline = std::ranges::find(division.strategies, std::string_view("pipeline"), &shard::AxisStrategy::strategy);
  if (pipeline == division.strategies.end()) return true;
  const int64_t stages = division.mesh.axes[pipeline->axis].size;
  if (!cut_pipeline(g, division.mesh, pipeline->axis, division.stages, context, d)) return false;
  *changed = true;
  cut_batch(g, stages, context);
  return true;
}

std::optional<shard::NodeStages> stages_of_nodes(const Graph& g, const Division& division, const PassContext& context,
                                                 Diagnostics& d) {
  shard::NodeStages out;
  if (!std::ranges::count(division.strategies, std::string_view("pipeline"), &shard::AxisStrategy::strategy)) return out;
  Graph& copy = copy_graph(g, "stages");
  bool changed = false;
  const bool good = divide(copy, division, context, d, &changed);
  if (const auto stages = good ? stages_of(copy) : std::nullopt) {
    for (NodeId n : copy.nodes()) {
      const uint32_t bits = stages->stages(n);
      if (has_trait(copy.op(n), kLeaf | kCollective) || !std::has_single_bit(bits)) continue;
      const int64_t stage = std::countr_zero(bits);
      for (Symbol source : merged_origin(copy, {&n, 1}).sources) {
        const auto at = out.emplace(copy.module().bytes(source), stage).first;
        at->second = std::min(at->second, stage);
      }
    }
  }
  copy.clear();
  if (!good) return std::nullopt;
  return out;
}

}  // namespace rlxc
