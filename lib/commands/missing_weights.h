// Random weights in place of those that a model lacks, to run and measure it.
#pragma once
#include <cstdint>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc {

// Gives each parameter without data random values of its type, the same for each seed (eval/random_weights.h), with one warning.
void fill_missing_weights(Module&, const DimBindings&, uint64_t seed, Diagnostics&);

}  // namespace rlxc
