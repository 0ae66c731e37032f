// What a matmul or a convolution can end with: an activation that the target's kernels apply to the result in registers.
#pragma once
#include "passes/match.h"

namespace rlxc::fuse {

// An activation: its node and its description.
struct EpilogueMatch {
  NodeId node;
  Epilogue act;
};
// The epilogue that `v`, computed by `root`, ends with on the target. Reshapes and Transposes may lie between v and the
// activation, if nothing else reads v and what they make. Records why not: an activation that the target lacks, or that is not
// the only reader. O(1): the first readers are looked at.
std::optional<EpilogueMatch> take_epilogue(const Graph&, ValueId v, NodeId root, std::string_view pattern, PassContext&);
// What v becomes by a few Reshapes and Transposes that are the only readers of what they move; v itself if there are none.
ValueId behind_moves(const Graph&, ValueId v);
// Takes out an activation that has been applied before what moves its operand.
void take_out(Graph&, NodeId activation);

// The only reader of `v` if it adds a value of the same type to it: that node and the value.
struct ResidualMatch {
  NodeId node;
  ValueId residual;
};
std::optional<ResidualMatch> match_residual(const Graph&, ValueId v);

}  // namespace rlxc::fuse
