// Mixtures of experts as models write them that send each expert its tokens: for each expert e, NonZero of "token t has e as its
// choice j", products of these rows, times their shares, added to the tokens they came from (scatter with reduction add, or onto
// zeros that are added).
#pragma once
#include "passes/recognise/expert_rows.h"

namespace rlxc {

// `v` [tokens, k] holds the numbers of the k largest of `experts` for each token.
bool is_choice(const Graph&, ValueId v, int64_t experts);
// The choice whose one-hot form [tokens, k, experts] `v` is, up to casts: by OneHot, or compared with 0, 1, .., experts - 1.
std::optional<Routing> one_hot_of(const Graph&, ValueId v);

// `root` is the last of the additions. O(nodes of the experts).
std::optional<Mixture> dispatched(const Graph&, NodeId root);

}  // namespace rlxc
