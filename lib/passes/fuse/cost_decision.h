// Whether a fusion that recomputes, copies or serialises something pays, by the times of analysis/cost.h.
#pragma once
#include <string>

#include "analysis/cost.h"

namespace rlxc::fuse {

struct CostDecision {
  double fused_ns = 0, separate_ns = 0;  // of the launches that the fusion makes, and of those that it replaces

  bool pays() const { return fused_ns <= separate_ns; }
  std::string detail() const;  // both times: the detail of a decision declined for "cost"
};

}  // namespace rlxc::fuse
