// The lowerings of one module for one target. Fusion, memory planning and package writing share them, so that each node is
// lowered once a compile; nodes with equal types, attributes and layouts share theirs.
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

  // Equal nodes have the same object. `phase` is that of the graph (analysis/phases.h). Valid as long as the cache.
  const LoweringInfo& info(const Graph&, const GraphLayouts&, NodeId, const std::vector<Phase>& phase);

  struct Lowered {
    std::optional<NodeKernels> kernels;
    std::string reason;  // there are none
  };
  // Equal nodes have the same object. `vectors`: see vectors_fit. `prepacked`: as for lower_node.
  const Lowered& lower(const Graph&, const GraphLayouts&, NodeId, bool vectors, std::span<const PrepackedBuffer> prepacked);

  size_t lowerings() const { return lowered_.size(); }  // how many have been made

 private:
  CapabilityRow row_, scalar_row_;  // without and with accesses of one element only
  std::map<std::vector<uint32_t>, LoweringInfo> infos_;
  std::map<std::vector<uint32_t>, Lowered> lowered_;
};

// Nodes of the module that have kernels; nodes that share their lowering in a cache count as one.
size_t count_lowered_nodes(const LirModule&);

// Can kernels for a grid of lanes access several elements of all operands and results at once? Devices fault where such accesses
// are not aligned. `offset`: by value, the bytes from where its buffer begins.
bool vectors_fit(const Graph&, NodeId, const std::vector<Dim>& offset);

}  // namespace rlxc::codegen
