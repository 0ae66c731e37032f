// What a product or a convolution can end with: an activation that the target's kernels apply to the result in registers.
#pragma once
#include "passes/match.h"

namespace rlxc::fuse {

// The only reader of `v` if it is an activation of it: that node and its description.
struct EpilogueMatch {
  NodeId node;
  Epilogue act;
};
std::optional<EpilogueMatch> match_epilogue(const Graph&, ValueId v);
bool allowed(const PassContext&, const Epilogue&);

// The only reader of `v` if it adds a value of the same type to it: that node and the value.
struct ResidualMatch {
  NodeId node;
  ValueId residual;
};
std::optional<ResidualMatch> match_residual(const Graph&, ValueId v);

}  // namespace rlxc::fuse
