// Evaluates values that depend on weights and constants alone, to store a weight in another form.
#pragma once
#include "eval/eval.h"

namespace rlxc::eval {

// Nullopt if the value depends on an input or on a weight without data, or cannot be evaluated. Evaluates a node once per path to
// it: for the few nodes that folding leaves around a weight.
std::optional<TensorData> weight_value(const Module&, const Graph&, ValueId, const Options& = {});

}  // namespace rlxc::eval
