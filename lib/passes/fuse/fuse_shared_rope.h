// Rotations of adjacent slices of one value by the same tables (queries and keys of a packed projection) become one.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_shared_rope(Module&, PassContext&);

}  // namespace rlxc
