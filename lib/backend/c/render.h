// Kernels as source text. The renderer only spells: it makes no choice that a builder or the simplifier could have made.
#pragma once
#include <string>
#include <vector>

#include "backend/c/c_like.h"

namespace rlxc::target {

// One self-contained source file with these kernels; or one kernel. Kernels must have passed kernel::simplify, which names
// what is used more than once.
std::string render(const std::vector<const Kernel*>&, const CLike&);
std::string render(const Kernel&, const CLike&);

}  // namespace rlxc::target
