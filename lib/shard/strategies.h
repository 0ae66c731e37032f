// Strategies of --parallel: what to split in a transformer. Propagation completes them.
#pragma once
#include "shard/propagate.h"

namespace rlxc::shard {

// Splits heads, hidden units of MLPs and experts, and the vocabulary of embedding and head over a mesh axis (Shoeybi et al.
// 2019): a layer needs one all_reduce after its attention and one after its MLP; or reduce_scatter and all_gather, where the rows
// of the values between divide too. Warns (Code::ShardingConflict) of attentions whose heads do not divide. Error
// (Code::BadSharding): nothing to split.
bool split_tensors(const Graph&, Shardings&, size_t axis, Diagnostics&);

// Splits dim 0 of the inputs that have the batch of the first one. Error (Code::BadSharding): it does not divide.
bool split_batch(const Graph&, Shardings&, size_t axis, Diagnostics&);

}  // namespace rlxc::shard
