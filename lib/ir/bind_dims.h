// Puts sizes in the place of symbols throughout a module.
#pragma once
#include "ir/graph.h"

namespace rlxc {

// Types of all values and sizes in attributes. Equalities of the module stay. O(values + distinct types and attributes).
void bind_dims(Module&, const DimBindings&);

}  // namespace rlxc
