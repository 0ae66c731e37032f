// A Scan over other axes than the first gets its inputs transposed, and its stacked results back: rows that lie together are all
// that the host of kernels must know of. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult lower_scan_axes(Module&, PassContext&);

}  // namespace rlxc
