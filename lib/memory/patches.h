// Patch-based execution (Lin et al., "MCUNetV2: Memory-Efficient Patch-based Inference for Tiny Deep Learning", arXiv
// 2110.15352): where the images between convolutions are larger than what enters and leaves a segment of the graph, the segment
// runs on parts of the rows, one after another:
//   y = f(x)  ->  y = concat(f(rows of x), f(rows of x), ..)
// A part reads the rows around it that its windows need, so some rows between are computed twice. Rows inside of an image have no
// padding.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "analysis/row_windows.h"
#include "ir/lir.h"

namespace rlxc {

// Nodes in schedule order that run in parts.
struct Segment {
  std::vector<NodeId> nodes;
  std::vector<RowMap> maps;  // of the nodes
  int64_t parts = 1;
};

class PatchSearch {
 public:
  // `blocked`: kernels read rows of an image in place only where it is row-major and a convolution reads it.
  PatchSearch(const Graph&, const GraphPlan&, bool blocked);
  ~PatchSearch();
  PatchSearch(const PatchSearch&) = delete;
  PatchSearch& operator=(const PatchSearch&) = delete;

  // Segments with which no step is estimated to need more than `most` bytes, in the least time. Empty if there are none. Tries
  // segments of limited length between steps where little is live. O(steps) for `most` above all, else O(steps * length^2).
  std::vector<Segment> segments(uint64_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Runs the segments in parts. Nodes must be in schedule order; plans are stale afterwards. Returns what is computed more than
// once and copied, or nullopt if a part cannot be made: the graph is then of no use.
std::optional<std::vector<PatchedSegment>> run_in_patches(Graph&, const std::vector<Segment>&);

}  // namespace rlxc
