// Random weights for Params without data, for equivalence checks.
#pragma once
#include "eval/random.h"

namespace rlxc::eval {

// A value for each Param without data in all graphs, by name. Tensors above 67 MB share the bytes of one block per element type
// and range, at different offsets, so a model of 32 GB takes a few hundred MB. Reuses fitting values of `known`, from an earlier
// call with the same seed and range.
NamedValues random_weights(const Module&, const DimBindings&, uint64_t seed, const RandomRange&, const NamedValues& known = {});

}  // namespace rlxc::eval
