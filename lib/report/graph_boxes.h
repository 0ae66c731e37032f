// What a picture of a graph shows: a box for each node, or for parts of a large graph that belong together.
#pragma once
#include <string>
#include <vector>

#include "ir/lir.h"

namespace rlxc::report {

struct GraphBox {
  OpKind op{};                                             // that of the node, or the most frequent one of a part
  bool is_part = false, small = false, is_output = false;  // small: an input or a view
  std::string head, label, type, tooltip;
};

struct GraphBoxes {
  std::vector<GraphBox> boxes;                       // in execution order
  std::vector<std::pair<uint32_t, uint32_t>> edges;  // each once, sorted, from < to
  std::string grouping;                              // how parts were made; empty if each node has its box
};

inline constexpr size_t kMostBoxes = 2000;

// The main graph without weights and constants. Above kMostBoxes nodes, runs of nodes of one name scope ("/encoder/layer.3")
// become one box, with the deepest scopes that give few enough boxes; failing that, runs of equally many steps. O(nodes log).
GraphBoxes graph_boxes(const LirModule&);

}  // namespace rlxc::report
