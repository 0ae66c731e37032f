// How often a loop runs.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace rlxc {

// Operands of a Loop before its carried values: trip count and condition; in the body, iteration and condition.
inline constexpr size_t kBeforeCarries = 2;

// How often the body of a Loop runs, where that is the same for all inputs.
std::optional<int64_t> trip_count(const Graph&, NodeId loop);

}  // namespace rlxc
