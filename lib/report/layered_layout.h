// Layered drawing of an acyclic graph (Sugiyama, Tagawa and Toda 1981): edges run downwards, nodes of a layer are ordered by the
// barycentre of their neighbours, edges across several layers bend around nodes.
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
  std::vector<double> bends;  // x in each layer in between; empty for stubs and between adjacent layers
  bool is_stub = false;       // spans more than kLongestRoute layers: not routed
};

struct LayeredLayout {
  std::vector<LayoutNode> nodes;  // in: `width`; indices are a topological order
  std::vector<LayoutEdge> edges;  // in: `from`, `to`
  uint32_t layers = 0;
  double width = 0;
};

inline constexpr uint32_t kLongestRoute = 12;

// Computes layers and positions. O((nodes + kLongestRoute * edges) log).
void arrange(LayeredLayout&, double gap);

}  // namespace rlxc::report
