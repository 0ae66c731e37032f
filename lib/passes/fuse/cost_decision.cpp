#include "passes/fuse/cost_decision.h"

#include <cstdio>

namespace rlxc::fuse {

std::string CostDecision::detail() const {
  char text[80];
  std::snprintf(text, sizeof text, "%.0f ns fused, %.0f ns separate", fused_ns, separate_ns);
  return text;
}

}  // namespace rlxc::fuse
