// Attributes of a FusedQConv from those of the convolution.
#pragma once
#include "ir/attrs.h"

namespace rlxc::test {

inline FusionAttrs conv_steps(ConvAttrs conv, std::vector<RegionStep> steps) {
  steps[0].attrs = std::move(conv);
  return {std::move(steps)};
}

}  // namespace rlxc::test
