// Constant weights of products become codes of few bits and scales (options.weight_cast): i8, i4 or an 8-bit float, one scale for
// each column, for each block of the summed axis, or for all. 0 is exact; the largest absolute value of a block becomes the
// largest code. Only weights of two axes whose contents are known and that are large enough to gain change; each is a
// PrecisionNote with the error that it makes, the others are Decisions ("weight_codes"). O(nodes + elements of weights).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult quantise_weights(Module&, PassContext&);

}  // namespace rlxc
