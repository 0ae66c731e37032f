// Caches the lowerings of one module for one target. Fusion, memory planning and package writing share it. Each node is lowered
// once; nodes with equal types, attributes and layouts share a lowering.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/phases.h"
#include "codegen/lower.h"

namespace rlxc::codegen {

class LoweringCache {
 public:
  explicit LoweringCache(CapabilityRow row);

  const CapabilityRow& row() const { return row_; }

  // Equal nodes share the object. `phase`: of the graph (analysis/phases.h). Valid as long as the cache.
  const LoweringInfo& info(const Graph&, const GraphLayouts&, NodeId, const std::vector<Phase>& phase);

  struct Lowered {
    std::optional<NodeKernels> kernels;
    std::string reason;  // set if there are no kernels
  };
  // Equal nodes share the object. `vectors`: see vectors_fit. `prepacked`: as for lower_node.
  const Lowered& lower(const Graph&, const GraphLayouts&, NodeId, bool vectors, std::span<const PrepackedBuffer> prepacked);

  size_t lowerings() const { return lowered_.size(); }  // number of lowerings computed

 private:
  CapabilityRow row_, scalar_row_;  // scalar_row_ allows single-element accesses only
  std::map<std::vector<uint32_t>, LoweringInfo> infos_;
  std::map<std::vector<uint32_t>, Lowered> lowered_;
};

// Counts the nodes of the module that have kernels. Nodes with a shared lowering count once.
size_t count_lowered_nodes(const LirModule&);

// Returns whether grid kernels may use vector accesses on all operands and results. Devices fault on misaligned ones. `offset`:
// by value, its byte offset in its buffer.
bool vectors_fit(const Graph&, NodeId, const std::vector<Dim>& offset);

}  // namespace rlxc::codegen
