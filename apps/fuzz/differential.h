// One model by three ways: the reference evaluator before the passes, the same after them, and the kernels interpreted.
#pragma once
#include "driver/load.h"

namespace rlxc {

// The first difference, or an empty string. Models that are too large to be evaluated, that draw random numbers, or whose results
// are so large that rounding shows, are not judged.
std::string first_difference(const CompileOptions&);

}  // namespace rlxc
