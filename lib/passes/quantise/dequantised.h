// What matmuls and convolutions on integers require of a dequantised operand.
#pragma once
#include <optional>

#include "ir/graph.h"

namespace rlxc {

// A value (q - zero) * scale; zero is invalid if all zero points are 0.
struct Dequantised {
  NodeId node;
  ValueId q, scale, zero;
  int64_t axis = 0;
  bool per_tensor = false;
};

// The operand, if a Dequantize of i8 or u8 (with `words` also of i16 or u16) without blocks makes it.
std::optional<Dequantised> dequantised(const Graph&, ValueId, bool words);

// Whether a Dequantize with a scale per tensor may follow the node instead of preceding it: the node moves or selects elements of
// operand 0.
bool moves_codes(const Graph&, NodeId);

ValueId unless_zero(const Graph&, ValueId zero_point);  // invalid if all are 0

}  // namespace rlxc
