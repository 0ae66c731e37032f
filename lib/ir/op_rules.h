// Properties of ops for analyses and planning. They are columns of ops.def, so an op without one does not compile.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/opkind.h"

namespace rlxc {

// Element types of the first operand. Type rules check the other operands.
enum class OperandDomain : uint8_t { Any, Number, Real };

// Cost model of a node (analysis/cost.h).
enum class CostRule : uint8_t {
  Free,      // moves elements, or is not modelled
  Cheap,     // one or two instructions per element
  Division,  // a division or a root per element
  Series,    // a series or a table per element
  Norm,      // statistics over axes
  Reduction,
  Program,  // the steps of a region
  Matmul,
  Conv,
  ConvTranspose,
  Attention,
};

// Layouts that the kernels of a node accept and write (analysis/views.h). All accept row-major values.
enum class LayoutRule : uint8_t {
  RowMajor,
  View,          // may alias its operand
  Elementwise,   // operands whose elements are contiguous, repeated or cheap to read strided
  Norm,          // operands and result in contiguous rows
  Matmul,        // first two operands in contiguous rows; strided results
  MatmulResult,  // strided results
  Conv,          // first operand and result with one stride per channel plane
  Attention,     // the first three operands in contiguous rows
  Rope,          // the first operand in contiguous rows
  Concat,        // any operand; result in contiguous rows
};

// Behaviour of an op in low precision.
enum class PrecisionClass : uint8_t {
  Fixed,        // types are part of its meaning: casts, quantization, control flow, positions
  Contraction,  // matmuls and convolutions: gain most, accumulate in f32
  Norm,         // statistics over axes, computed in f32
  Sensitive,    // exp, log, powers, sums, running sums: range or cancellation
  Elementwise,
  Movement,
};
// Bit i of `operands`: operand i may have low precision. Others (indices, masks, scales, statistics) keep their type.
struct PrecisionRule {
  PrecisionClass cls = PrecisionClass::Fixed;
  uint32_t operands = 0;
  constexpr PrecisionRule operator()(uint32_t some) const { return {cls, some}; }
};

OperandDomain operand_domain(OpKind);
CostRule cost_rule(OpKind);
// One or two instructions per element: recomputing is cheaper than a store and a load.
inline bool is_cheap(OpKind k) { return cost_rule(k) == CostRule::Cheap; }
LayoutRule layout_rule(OpKind);
PrecisionRule precision_rule(OpKind);

std::string_view name(PrecisionClass);  // "contraction"
std::optional<PrecisionClass> precision_class_from_name(std::string_view);

}  // namespace rlxc
