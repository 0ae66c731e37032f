// A transposed convolution as a convolution whose output channels are the phases of the result.
#pragma once
#include <vector>

#include "passes/legalise/decompositions.h"

namespace rlxc {

// The Dequantize of a ConvTranspose's weight, if its codes can be rearranged instead: 8 bits, zero points 0, and one scale, or
// one per output channel without groups. Invalid otherwise.
NodeId quantized_weight(const Graph&, NodeId conv_transpose);

// The value of a ConvTranspose or FusedConvTransposeBiasAct. Nothing if a size of the window is unknown or the result is empty.
std::vector<ValueId> conv_of_phases(legalise::Expansion&);

}  // namespace rlxc
