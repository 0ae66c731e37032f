#include "passes/shard/divide.h"

#include <algorithm>

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
  if (!cut_pipeline(g, division.mesh, pipeline->axis, context, d)) return false;
  *changed = true;
  cut_batch(g, stages, context);
  return true;
}

}  // namespace rlxc
