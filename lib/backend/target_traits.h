// The traits of a target that passes read: fused kinds with kernels, limits of elementwise regions, figures of the cost model.
// They follow from its row in backend.h.
#pragma once
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace rlxc {

const std::vector<std::string_view>& target_names();  // in the order of backends.def
// Null for an unknown name.
const TargetTraits* find_target(std::string_view name);

}  // namespace rlxc
