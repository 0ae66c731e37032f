#include "passes/packed_weights.h"

#include <algorithm>

#include "analysis/exchange.h"
#include "analysis/phases.h"
#include "analysis/views.h"
#include "passes/match.h"
#include "support/checked.h"

namespace rlxc {
namespace {

// Bytes of load-time results that runs read.
int64_t load_time_bytes(const Graph& g) {
  const auto phase = derive_phases(g);
  int64_t sum = 0;
  for (NodeId n : g.nodes()) {
    if (phase[n.raw] != Phase::Prologue || has_trait(g.op(n), kLeaf) || view_of(g, n)) continue;
    for (size_t r = 0; r < g.result_count(n); ++r)
      if (std::ranges::any_of(g.uses(g.result(n, r)), [&](auto use) { return phase[use.user.raw] != Phase::Prologue; }))
        sum = checked_add(sum, match::bytes(g, g.result(n, r))).value_or(INT64_MAX);
  }
  return sum;
}

}  // namespace

int64_t packed_room(const Graph& g, const PassContext& ctx) {
  if (!ctx.options.max_packed && ctx.options.device_memory == 0) return INT64_MAX;
  uint64_t room = std::min<uint64_t>(ctx.options.max_packed.value_or(INT64_MAX), INT64_MAX);
  if (const uint64_t all = ctx.options.device_memory; all > 0)
    room = std::min(room, all - std::min(all, device_weight_bytes(g) + live_bytes(g)));
  return static_cast<int64_t>(room) - load_time_bytes(g);
}

}  // namespace rlxc
