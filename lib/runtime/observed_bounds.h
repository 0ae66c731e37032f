// How large the sizes get that only a run tells and that nothing bounds, on given data: the reference evaluator shows it.
#pragma once
#include <span>

#include "ir/lir.h"
#include "runtime/data_set.h"

namespace rlxc {

// A bound for each extent without one, the largest of all sets, with a warning each; none where the evaluator fails, or has done
// its most, before. Nothing runs where all have bounds.
DimBindings observed_bounds(const LirModule&, std::span<const DataSet>, Diagnostics&);

}  // namespace rlxc
