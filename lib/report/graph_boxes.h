// Content of a graph drawing: a box per node, or per part of a large graph.
#pragma once
#include <string>
#include <vector>

#include "ir/lir.h"

namespace rlxc::report {

struct GraphBox {
  OpKind op{};                                             // op of the node, or the most frequent op of a part
  bool is_part = false, small = false, is_output = false;  // small: input or view
  std::string head, label, type, tooltip;
};

struct GraphBoxes {
  std::vector<GraphBox> boxes;                       // in execution order
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // without repetition, sorted, from < to
  std::string grouping;                              // how parts were formed; empty if each node has a box
};

inline constexpr size_t kMostBoxes = 2000;

// Boxes of the main graph without weights, constants and what is made of these at load time. Above 250 nodes, repeated layers
// have one box behind the first. Above kMostBoxes nodes, a box is a run of nodes of one name scope
// ("/encoder/layer.3"), at the deepest level with few enough boxes, or else a run of equally many steps. O(nodes log nodes).
GraphBoxes graph_boxes(const LirModule&);

}  // namespace rlxc::report
