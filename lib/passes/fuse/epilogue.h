// Epilogues of matmuls and convolutions: activations that the target's kernels apply in registers.
#pragma once
#include "passes/match.h"

namespace rlxc::fuse {

// The activation node and its attributes.
struct EpilogueMatch {
  NodeId node;
  Epilogue act;
};
// The activation that can become an epilogue of `root`, whose result is `v`. Passes Reshapes and Transposes if each is the sole
// user. Records a decline if the target lacks the activation or it is not the sole user. O(1): visits a bounded number of users.
std::optional<EpilogueMatch> take_epilogue(const Graph&, ValueId v, NodeId root, std::string_view pattern, PassContext&);
// The value behind a chain of sole users that are Reshapes and Transposes; v itself if there is none.
ValueId after_layout_ops(const Graph&, ValueId v);
// Removes an activation that an epilogue now applies before the layout ops.
void bypass(Graph&, NodeId activation);

// The sole user of `v` if it adds a value of the same type: the Add and this value.
struct ResidualMatch {
  NodeId node;
  ValueId residual;
};
std::optional<ResidualMatch> match_residual(const Graph&, ValueId v);

}  // namespace rlxc::fuse
