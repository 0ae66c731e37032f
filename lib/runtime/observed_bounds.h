// Bounds of unbounded data-dependent dims, observed by the reference evaluator on sample data.
#pragma once
#include <span>

#include "ir/lir.h"
#include "runtime/data_set.h"

namespace rlxc {

// Returns, for each extent without a bound, its maximum over all sets, with a warning. Omits extents that the evaluator does not
// reach before it fails or exceeds `limits`. Evaluates nothing if all extents have bounds.
DimBindings observed_bounds(const LirModule&, std::span<const DataSet>, const eval::Options& limits, Diagnostics&);

}  // namespace rlxc
