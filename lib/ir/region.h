// Regions are programs of elementwise steps (RegionAttrs), some of them around one step that normalises or reduces, their core
// (NormRegionAttrs). What such a program reads, and of which size it is.
#pragma once
#include "ir/graph.h"

namespace rlxc {

bool reduces(const NormRegionAttrs&);

// Which steps it takes to compute step `wanted`, with the value of step `given` at hand (none: the number of steps).
std::vector<bool> needed_steps(std::span<const RegionStep>, size_t wanted, size_t given);

// Which of `count` operands the core depends on.
std::vector<bool> operands_before_core(const NormRegionAttrs&, size_t count);

// The sizes of what a NormRegion normalises or reduces. The node must have been inferred.
std::vector<Dim> core_dims(const Graph&, NodeId);

}  // namespace rlxc
