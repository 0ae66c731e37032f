// Regions that quantize an f32 value with one scale, as expand_q_dq and mark_elementwise_regions leave them. The integer matmul
// or convolution that reads the codes can quantize the value itself.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"

namespace rlxc::fuse {

struct Rounding {
  ValueId x, scale, zero;  // zero: a float, or absent
};

// The operands of the region if it is the quantization of an f32 value with one scale (legalise/decompose_linear.cpp).
std::optional<Rounding> rounding_of(const Graph&, NodeId);
// Whether a matmul or convolution subtracts what the rounding adds.
bool same_zero(const Graph&, ValueId added, ValueId subtracted);

// The operands of a matmul or convolution that quantizes x itself: x is the first, its scale operand kQuantOperands. Renumbers
// the operands of the steps.
std::vector<ValueId> rounding_operands(Graph&, NodeId, const Rounding&, std::vector<RegionStep>*);

// Replaces n, which reads codes that only `rounding` computes, and `rounding` by `whole`, which quantizes its operand itself, and
// records the decision.
void take_over_rounding(Graph&, NodeId n, NodeId rounding, NodeId whole, std::string_view pattern, PassContext&);

}  // namespace rlxc::fuse
