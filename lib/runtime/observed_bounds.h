// Bounds of unbounded data-dependent dims, observed by the reference evaluator on given data.
#pragma once
#include <span>

#include "ir/lir.h"
#include "runtime/data_set.h"

namespace rlxc {

// A bound for each extent without one, the largest of all sets, with a warning each; none where the evaluator fails, or has done
// its most, before. Nothing runs where all have bounds.
DimBindings observed_bounds(const LirModule&, std::span<const DataSet>, const eval::Options& limits, Diagnostics&);

}  // namespace rlxc
