// Kernels read and write 4-bit types and 8-bit floats in casts only. Other operations on such values compute on wider ones, which
// hold them exactly, between casts; quantisation to and from them is written with simpler operations. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult widen_narrow_types(Module&, PassContext&);

}  // namespace rlxc
