// The contents of a value that follows from weights and constants alone: needed where a weight is stored in another form.
#pragma once
#include "eval/eval.h"

namespace rlxc::eval {

// Nothing if it depends on an input, or on a weight whose contents are not known, or cannot be evaluated. O(its operations, each
// once for each path to it): for the few that folding leaves around a weight.
std::optional<TensorData> weight_value(const Module&, const Graph&, ValueId, const Options& = {});

}  // namespace rlxc::eval
