// The pass strings_as_bytes, for tables: which operations it lowers.
#pragma once
#include "ir/graph.h"

namespace rlxc {

bool has_byte_form(OpKind);  // may it have strings as operands and results?

}  // namespace rlxc
