// Properties of operations for analyses and planning: columns of ops.def, so an operation without an answer does not compile.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/opkind.h"

namespace rlxc {

// Element types of the first operand. Type rules check the other operands.
enum class OperandDomain : uint8_t { Any, Number, Real };

// Arithmetic of a node (analysis/cost.h).
enum class CostRule : uint8_t {
  Free,      // moves elements, or is not modelled
  Cheap,     // one or two instructions an element
  Division,  // a division or a root an element
  Series,    // a series or a table an element
  Norm,      // statistics over axes
  Reduction,
  Program,  // the steps of a region
  Matmul,
  Conv,
  ConvTranspose,
  Attention,
};

// Which memory layouts the kernels of a node read and write (analysis/views.h). All of them take row-major values.
enum class LayoutRule : uint8_t {
  RowMajor,
  View,          // may be another name for bytes of its operand
  Elementwise,   // operands with contiguous or cheap strided elements
  Norm,          // operands and result in contiguous rows
  Matmul,        // first two operands in contiguous rows; strided results
  MatmulResult,  // strided results
  Conv,          // first operand and result in planes
  Attention,     // the first three operands in contiguous rows
  Rope,          // the first operand in contiguous rows
  Concat,        // any operands; a result in contiguous rows
};

// How an operation behaves in low precision.
enum class PrecisionClass : uint8_t {
  Fixed,        // types are part of its meaning: casts, quantisation, control flow, positions
  Contraction,  // matmuls and convolutions: gain most, accumulate in f32
  Norm,         // statistics over axes, computed in f32
  Sensitive,    // exp, log, powers, sums, running sums: range or cancellation
  Elementwise,
  Movement,
};
// Bit i of `operands`: operand i may have low precision. The others (indices, masks, scales, statistics) keep their type.
struct PrecisionRule {
  PrecisionClass cls = PrecisionClass::Fixed;
  uint32_t operands = 0;
  constexpr PrecisionRule operator()(uint32_t some) const { return {cls, some}; }
};

OperandDomain operand_domain(OpKind);
CostRule cost_rule(OpKind);
LayoutRule layout_rule(OpKind);
PrecisionRule precision_rule(OpKind);

std::string_view name(PrecisionClass);  // "contraction"
std::optional<PrecisionClass> precision_class_from_name(std::string_view);

}  // namespace rlxc
