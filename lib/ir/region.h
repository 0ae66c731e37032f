// Regions are programs of elementwise steps (RegionAttrs), some of them around steps that are not, their cores: one that
// normalises (NormRegionAttrs), several that reduce (ReduceRegionAttrs), or an integer matmul at their beginning. What such a
// program reads, and of which size it is.
#pragma once
#include "ir/graph.h"

namespace rlxc {

bool is_core(const RegionStep&);
inline constexpr size_t kQuantOperands = 4;  // of q_matmul and q_conv; those of the steps after them follow

// Which steps it takes to compute step `wanted`, with the values of the cores before it at hand.
std::vector<bool> needed_steps(std::span<const RegionStep>, size_t wanted);

// Whether a value of these sizes varies along `axes` of what it broadcasts to, of `rank` axes.
bool varies(std::span<const Dim> dims, size_t rank, std::span<const int64_t> axes);
// Which steps vary along the axes, by which operands do. Cores do not.
std::vector<bool> varying_steps(std::span<const RegionStep>, const std::vector<bool>& operands);

// How often rows must be walked, and for what: the reductions that each walk completes, none in the last, which gives the result,
// and the steps that it computes at each element. A walk completes all reductions whose operands the earlier ones have made
// known.
struct RowWalk {
  std::vector<size_t> reductions;
  std::vector<bool> steps;
};
std::vector<RowWalk> row_walks(std::span<const RegionStep>, const std::vector<bool>& varying);

// The sizes that all operands of a region broadcast to. The node must have been inferred.
std::vector<Dim> whole_dims(const Graph&, NodeId);
// Of a ReduceRegion.
std::vector<bool> varying_steps(const Graph&, NodeId);

}  // namespace rlxc
