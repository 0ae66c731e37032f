// Whether a fusion that recomputes, copies or serialises work is profitable (analysis/cost.h).
#pragma once
#include <string>

#include "analysis/cost.h"

namespace rlxc::fuse {

struct CostDecision {
  double fused_ns = 0, separate_ns = 0;  // of the fused launches, and of the launches they replace

  bool pays() const { return fused_ns <= separate_ns; }
  std::string detail() const;  // both times, as text for a fusion declined for "cost"
};

}  // namespace rlxc::fuse
