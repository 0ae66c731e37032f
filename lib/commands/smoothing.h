// Scales of the channels of norms (`rlxc calibrate --smooth`).
#pragma once
#include <optional>
#include <span>

#include "eval/eval.h"
#include "passes/pass.h"
#include "runtime/data_set.h"

namespace rlxc {

using ChannelScales = decltype(CalibrationRecord::channel_scales);

// Scales of the channels of norms by which `share` of their range moves to the weights that read them:
// max|x|^share / max|w|^(1-share) (Xiao et al., "SmoothQuant", 2022). Channels of zeros keep their scale.
std::optional<ChannelScales> smoothing(const Module&, std::span<const DataSet> samples, double share, const eval::Options& limits,
                                       Diagnostics&);

}  // namespace rlxc
