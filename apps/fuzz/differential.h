// Evaluates a model in three ways: the reference evaluator before and after the passes, and interpreted kernels.
#pragma once
#include "driver/load.h"

namespace rlxc {

// Returns the first difference, or an empty string. Skips models that are too large, draw random numbers, or have results large
// enough for rounding to matter.
std::string first_difference(const CompileOptions&);

}  // namespace rlxc
