// How each operation behaves in low precision: one table from a kind to its class and to the operands that may be narrow.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/opkind.h"

namespace rlxc {

enum class PrecisionClass : uint8_t {
  Fixed,        // stays as it is: types are part of its meaning (casts, quantisation, control flow, positions)
  Contraction,  // products and convolutions: they gain most, and accumulate in f32
  Norm,         // statistics over axes, computed in f32 inside; reads and writes what it is given
  Sensitive,    // exp, log, powers, sums, running sums: range or cancellation
  Elementwise,
  Movement,
};

// Operands that may be narrow, as bits; the others (indices, masks, conditions, scales, tables, statistics) keep their type.
// Operations on any number of operands have all bits set.
struct PrecisionRow {
  PrecisionClass cls = PrecisionClass::Fixed;
  uint32_t slots = 0;
};
PrecisionRow precision_row(OpKind);

std::string_view name(PrecisionClass);  // "contraction"
std::optional<PrecisionClass> precision_class_from_name(std::string_view);

}  // namespace rlxc
