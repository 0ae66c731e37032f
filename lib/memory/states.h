// State tensors: an input and an output that are one buffer, which a run updates (a cache of keys and values, running sums).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/lir.h"
#include "support/diagnostics.h"

namespace rlxc {

// The inputs and outputs of these names. Errors: unknown names, one that is named twice, types that differ.
std::optional<std::vector<State>> find_states(const Module&, std::span<const std::pair<std::string, std::string>> names,
                                              Diagnostics&);

}  // namespace rlxc
