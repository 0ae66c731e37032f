// Random valid graphs of the idioms that passes recognise and fuse (norms, activations, attention, rotary embedding, gates,
// products with bias, convolutions with batch norm), each written in one of the exporters' ways, and often with one detail that
// is not as it should be: another axis, an operand that broadcasts, a second reader, an output in the middle. Passes must see it.
#pragma once
#include <cstdint>
#include <memory>

#include "ir/graph.h"

namespace rlxc::testing {

std::unique_ptr<Module> random_blocks(uint64_t seed, int blocks = 5, DType = DType::F32);

}  // namespace rlxc::testing
