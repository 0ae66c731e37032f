#pragma once
#include "passes/pass.h"

namespace rlxc {

// Splits results of at least `least` bytes into parts of about `part` bytes. Returns the number of results.
int64_t split_widened_results(Graph&, uint64_t least, uint64_t part, PassContext&);

}  // namespace rlxc
