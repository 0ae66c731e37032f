// The type of constant weights in a record (`rlxc calibrate --weights`).
#pragma once
#include <optional>

#include "commands/trials.h"

namespace rlxc {

// Finds the largest group of weights that share a scale, and the layers that stay float if the smallest is not accurate enough.
std::optional<Calibrated> accurate_weights(const Module&, const CompileOptions&, const CalibrateRequest&, Trials&, size_t samples,
                                           Diagnostics&);

}  // namespace rlxc
