// Pieces that operations share whose results have a data-dependent dim.
#pragma once
#include "codegen/lowerings.h"

namespace rlxc::codegen {

inline Buf writable(Scope& s, const Operand& o) { return s.builder().inout(o.name, o.dtype, o.extent); }
inline Buf readable(Scope& s, const Operand& o) { return s.builder().input(o.name, o.dtype, o.extent); }

// Adds a launch: the numbers of selected elements of each block (scratch `counts`, i64) become the place of the first one in the
// result; their sum is the extent.
void place_blocks(Node&, uint32_t counts, Dim blocks);

}  // namespace rlxc::codegen
