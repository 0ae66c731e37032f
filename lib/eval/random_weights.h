// Weights that a model does not bring, for checks of equivalence.
#pragma once
#include "eval/random.h"

namespace rlxc::eval {

// A value for each Param without data of all graphs, by name: equal names get equal values. Tensors of more than 67 MB share the
// bytes of a block of that size for each element type and range, each from a place of its own on, so that a model of 32 GB takes
// a few hundred MB. `known` are values of an earlier call with the same seed and range: those that still fit are used again.
NamedValues random_weights(const Module&, const DimBindings&, uint64_t seed, const RandomRange&, const NamedValues& known = {});

}  // namespace rlxc::eval
