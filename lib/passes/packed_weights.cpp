#include "passes/packed_weights.h"

#include <algorithm>

#include "analysis/exchange.h"
#include "support/checked.h"

namespace rlxc {

int64_t packed_room(const Graph& g, const PassContext& ctx) {
  if (!ctx.options.max_packed && ctx.options.device_memory == 0) return INT64_MAX;
  uint64_t room = std::min<uint64_t>(ctx.options.max_packed.value_or(INT64_MAX), INT64_MAX);
  if (const uint64_t all = ctx.options.device_memory; all > 0)
    room = std::min(room, all - std::min(all, device_weight_bytes(g) + live_bytes(g)));
  return checked_sub(static_cast<int64_t>(room), static_cast<int64_t>(load_time_bytes(g))).value_or(0);
}

}  // namespace rlxc
