// --parallel auto: the strategies and mesh axes of the fastest predicted program that fits the memory of a device.
#pragma once
#include "passes/pass.h"
#include "shard/strategies.h"

namespace rlxc {

// Divides copies of the main graph by every assignment of strategies to mesh axes, next to what the requests say, and compares
// predicted times (analysis/exchange.h, analysis/cost.h). Error (Code::BadSharding), with the bytes that each needs: none fits
// --device-memory. At most 3 mesh axes. O(nodes * assignments).
std::optional<std::vector<shard::AxisStrategy>> choose_strategies(Module&, const Mesh&, const std::vector<shard::Request>&,
                                                                  PassContext&);

}  // namespace rlxc
