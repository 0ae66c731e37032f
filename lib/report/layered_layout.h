// Drawing of an acyclic graph in layers (Sugiyama, Tagawa and Toda 1981): every edge runs downward, nodes of a layer are ordered
// by the barycentre of their neighbours, edges over several layers bend around nodes.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace rlxc::report {

struct LayoutNode {
  double width = 0;
  uint32_t layer = 0;
  double x = 0;  // of the centre
};

struct LayoutEdge {
  uint32_t from = 0, to = 0;  // from < to
  std::vector<double> bends;  // x in each layer between; empty for a long edge (`is_stub`) and between neighbours
  bool is_stub = false;       // spans more than kLongestRoute layers: not routed
};

struct Layout {
  std::vector<LayoutNode> nodes;  // set `width`; indices are a topological order
  std::vector<LayoutEdge> edges;  // set `from`, `to`
  uint32_t layers = 0;
  double width = 0;
};

inline constexpr uint32_t kLongestRoute = 12;

// Fills layers and positions. O((nodes + kLongestRoute * edges) log).
void arrange(Layout&, double gap);

}  // namespace rlxc::report
