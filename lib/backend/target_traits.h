// What the passes are told of a target: which fused kinds it has kernels for, limits of elementwise regions, and the figures of
// the cost model. Made of its row in backend.h.
#pragma once
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace rlxc {

const std::vector<std::string_view>& target_names();  // in the order of backends.def
// Null for an unknown name.
const TargetTraits* find_target(std::string_view name);

}  // namespace rlxc
