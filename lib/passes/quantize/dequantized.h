// What matmuls and convolutions on integers require of a dequantized operand.
#pragma once
#include <functional>
#include <optional>

#include "ir/graph.h"

namespace rlxc {

// A value (q - zero) * scale; zero is invalid if all zero points are 0.
struct Dequantized {
  NodeId node;
  ValueId q, scale, zero;
  int64_t axis = 0;
  bool per_tensor = false;
};

// The operand, if a Dequantize of i8 or u8 (with `words` also of i16 or u16) without blocks makes it.
std::optional<Dequantized> dequantized(const Graph&, ValueId, bool words);

// Whether a Dequantize with a scale per tensor may follow the node instead of preceding it: the node moves or selects elements of
// operand 0.
bool moves_codes(const Graph&, NodeId);

// The codes between which a node clamps the values of d: clamp(dequantize(q)) = dequantize(clamp(q)). Nullopt if the node is no
// Relu or Clamp, or a limit is between the values of two codes.
struct CodeLimits {
  int64_t least, most;
};
std::optional<CodeLimits> clamped_codes(const Graph&, NodeId, const Dequantized& d);
// Whether the node concatenates values of which `of` returns one scale and zero point.
bool joins_codes(const Graph&, NodeId, const std::function<std::optional<Dequantized>(ValueId)>& of);
// Returns the Dequantize of a value, or the one that it will have. The pass moves Dequantize below nodes that move, clamp or
// concatenate codes.
std::optional<Dequantized> dequantized_late(const Graph&, ValueId, bool words);

ValueId unless_zero(const Graph&, ValueId zero_point);  // invalid if all are 0

}  // namespace rlxc
