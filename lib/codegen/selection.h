// Helpers for ops whose results have a data-dependent dim.
#pragma once
#include "codegen/lowerings.h"

namespace rlxc::codegen {

inline Buf writable(Scope& s, const Operand& o) { return s.builder().inout(o.name, o.dtype, o.extent); }
inline Buf readable(Scope& s, const Operand& o) { return s.builder().input(o.name, o.dtype, o.extent); }

// Adds a launch with an exclusive scan: `counts` (i64 scratch, selected elements per block) becomes the result offset of each
// block's first element. The sum is the extent.
void place_blocks(Node&, uint32_t counts, Dim blocks);

}  // namespace rlxc::codegen
