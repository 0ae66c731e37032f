#include "passes/shard/divide.h"

#include <algorithm>

#include "passes/shard/buckets.h"
#include "passes/shard/pipeline.h"
#include "shard/partition.h"

namespace rlxc {

bool divide(Graph& g, const Mesh& mesh, const std::vector<shard::Request>& requests,
            const std::vector<shard::AxisStrategy>& strategies, const PassContext& context, Diagnostics& d, bool* changed) {
  const auto pipeline = std::ranges::find(strategies, std::string_view("pipeline"), &shard::AxisStrategy::strategy);
  shard::Shardings s(g, mesh);
  for (const shard::Request& r : requests)
    if (!s.apply(r, d)) return false;
  for (const shard::AxisStrategy& a : strategies)
    if (a.strategy != "pipeline" && !shard::apply_strategy(g, a, s, d)) return false;
  s.propagate(d);
  *changed = shard::partition(g, s);
  *changed |= join_all_reduces(g);
  if (pipeline == strategies.end()) return true;
  const int64_t stages = mesh.axes[pipeline->axis].size;
  if (!cut_pipeline(g, mesh, pipeline->axis, context, d)) return false;
  *changed = true;
  cut_batch(g, stages, context);
  return true;
}

}  // namespace rlxc
