// Prints kernels as source text. The renderer makes no choice that a builder or the simplifier could make.
#pragma once
#include <string>
#include <vector>

#include "backend/c/c_like.h"

namespace rlxc::target {

// Returns one self-contained source file with these kernels, or one kernel. Run kernel::simplify first: it names shared
// expressions.
std::string render(const std::vector<const Kernel*>&, const CLike&);
std::string render(const Kernel&, const CLike&);

}  // namespace rlxc::target
