// Random valid graphs of the idioms that passes recognise and fuse (norms, activations, attention, rotary embedding, gates,
// matmuls with bias, convolutions with batch norm) in exporters' variants. Some have one changed detail that passes must notice:
// another axis, a broadcast operand, a second user, an output in the middle.
#pragma once
#include <cstdint>
#include <memory>

#include "ir/graph.h"

namespace rlxc::testing {

std::unique_ptr<Module> random_blocks(uint64_t seed, int blocks = 5, DType = DType::F32);

}  // namespace rlxc::testing
