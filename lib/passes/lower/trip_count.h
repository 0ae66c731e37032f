// Trip counts of loops.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace rlxc {

// Loop operands before the carried values: trip count and condition. In the body: iteration number and condition.
inline constexpr size_t kBeforeCarries = 2;

// The trip count of a Loop if it is the same for all inputs.
std::optional<int64_t> trip_count(const Graph&, NodeId loop);
// The most trips of a Loop, if that is a constant.
std::optional<int64_t> trip_limit(const Graph&, NodeId loop);

}  // namespace rlxc
