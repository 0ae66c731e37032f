// The set of ops that strings_as_bytes rewrites.
#pragma once
#include "ir/graph.h"

namespace rlxc {

bool has_byte_form(OpKind);  // the op may have string operands and results

}  // namespace rlxc
