#include "passes/packed_weights.h"

#include <algorithm>

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
  if (!ctx.options.max_packed) return INT64_MAX;
  return static_cast<int64_t>(std::min<uint64_t>(*ctx.options.max_packed, INT64_MAX)) - load_time_bytes(g);
}

}  // namespace rlxc
