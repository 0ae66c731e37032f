// Mixtures of experts as models write them that send each expert its tokens: for each expert e, NonZero of "token t has e as its
// choice j", matmuls of these rows, times their shares, added to the tokens they came from (scatter with reduction add, or onto
// zeros that are added).
#pragma once
#include "passes/recognise/expert_shares.h"

namespace rlxc {

// `root` is the last of the additions. O(nodes of the experts).
std::optional<Mixture> dispatched(const Graph&, NodeId root);

}  // namespace rlxc
