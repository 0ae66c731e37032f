// Raises x*cos + rotated(x)*sin to Rope: rotated halves concat(-x2, x1), or rotated adjacent pairs. A Transpose that put the
// heads before the rows moves behind the Rope, where the attention takes it over.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_rope(Module&, PassContext&);

}  // namespace rlxc
