// Strategies of --parallel: what to split in a transformer. Propagation completes them.
#pragma once
#include <string_view>

#include "shard/propagate.h"

namespace rlxc::shard {

inline constexpr std::string_view kStrategies[] = {"tensor", "data", "expert", "pipeline"};

struct AxisStrategy {
  std::string_view strategy;  // of kStrategies
  size_t axis = 0;            // of the mesh
};

// tensor: splits heads, hidden units of MLPs and experts, and the vocabulary of embedding and head over the mesh axis (Shoeybi et
// al. 2019). A layer needs one all_reduce after its attention and one after its MLP; or reduce_scatter and all_gather, where the
// rows of the values between divide too. Warns (Code::ShardingConflict) of attentions with fewer heads
// than devices.
// data: splits dim 0 of the inputs that have the batch of the first one. In a step of training it splits the moments of
// parameters, too, but not the parameters.
// expert: splits mixtures of experts by expert. A device computes the rows of its experts, and an all_reduce adds them up.
// Dims are padded if need be, but not rows and moments.
// pipeline is cut from the program that the others make (passes/shard/pipeline.h).
// Error (Code::BadSharding): nothing to split, or the batch does not divide. O(nodes).
bool apply_strategy(const Graph&, const AxisStrategy&, Shardings&, Diagnostics&);

}  // namespace rlxc::shard
