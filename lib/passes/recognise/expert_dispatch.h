// Mixtures of experts as models write them that send each expert its tokens: for each expert e, NonZero of "token t has e as its
// choice j", products of these rows, times their shares, added to the tokens they came from (scatter with reduction add, or onto
// zeros that are added).
#pragma once
#include "passes/recognise/expert_rows.h"

namespace rlxc {

// Of how many experts `v` [tokens, k] holds the numbers of k different ones for each token: by TopK or, for k = 1, ArgReduce.
std::optional<int64_t> chosen_of(const Graph&, ValueId v);
// The choice whose one-hot form [tokens, k, experts] `v` is, up to casts: by OneHot, or compared with 0, 1, .., experts - 1.
std::optional<Routing> one_hot_of(const Graph&, ValueId v);

// `root` is the last of the additions. O(nodes of the experts).
std::optional<Mixture> dispatched(const Graph&, NodeId root);

}  // namespace rlxc
