// Block sizes of kernels that were measured to be faster than those of the processor model, by operation and types.
#pragma once
#include <map>
#include <string>

#include "ir/graph.h"
#include "kernel/blocking.h"

namespace rlxc::codegen {

// By tuning_key.
using Tuning = std::map<std::string, kernel::Blocking, std::less<>>;

// "FusedMatMulBiasAct(f32[128,768], f32[768,3072]) -> f32[128,3072]". Nodes with the same key share block sizes. O(operands).
std::string tuning_key(const Graph&, NodeId);

}  // namespace rlxc::codegen
