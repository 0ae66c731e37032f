// The traits of a target that passes read: supported fused kinds, limits of elementwise regions, cost model figures. Derived from
// the target's row (backend.h).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace rlxc {

const std::vector<std::string_view>& target_names();  // in the order of backends.def
// Returns null for an unknown name.
const TargetTraits* find_target(std::string_view name);
// Advice for the error about an unknown target: "did you mean cuda?".
std::string target_advice(std::string_view name);

}  // namespace rlxc
