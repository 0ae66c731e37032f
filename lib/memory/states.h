// State tensors: an input and an output that share one buffer, which a run updates (a KV cache, running sums).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/lir.h"
#include "support/diagnostics.h"

namespace rlxc {

// Resolves the names. Errors: unknown names, a name used twice, different types.
std::optional<std::vector<State>> find_states(const Module&, std::span<const std::pair<std::string, std::string>> names,
                                              Diagnostics&);

// A state that every device slices when a run begins, and gathers when it ends, becomes one of which a device has its part alone:
// input and output get the types of the part. O(states + uses).
void split_states(Module&, std::vector<State>*);

}  // namespace rlxc
