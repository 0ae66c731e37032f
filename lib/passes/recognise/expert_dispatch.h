// Matches mixtures of experts that send each expert its tokens: for each expert e, NonZero of "token t has e as choice j",
// matmuls of these rows, times their shares, added to their tokens (scatter with reduction add, or onto zeros that are added).
#pragma once
#include "passes/recognise/expert_shares.h"

namespace rlxc {

// `root`: the last addition. O(nodes of the experts).
std::optional<Mixture> dispatched(const Graph&, NodeId root);

}  // namespace rlxc
