// Which elements of its operands a node reads for some elements of its results. A node is a nest of loops, and each axis of an
// operand or result is indexed by some of them: whole, strided, or by windows. Cutting of rows and sharding follow from it, so an
// op says it once: its rule is a column of ops.def.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace rlxc {

struct Loop {
  enum class Kind : uint8_t {
    Parallel,  // each iteration computes a part of the results
    Reduce,    // each computes whole results of a part of the operands; `op` combines these
    Lookup,    // rows of a table, or matrices, that indices select
  };
  int64_t size = 0;
  Kind kind = Kind::Parallel;
  ReduceOp op = ReduceOp::Sum;
};

// A loop that indexes an axis. The axis consists of `blocks` blocks, each of which the loop walks over: iteration i covers
// `reach` elements from i * stride - before on. Elements outside of the axis are padding.
struct LoopIndex {
  size_t loop = 0;
  int64_t blocks = 1, stride = 1, before = 0, reach = 1;
  // Whether iterations cover the axis, each a part of its own.
  bool tiles(const Loop& l, Dim size) const { return before == 0 && reach == stride && Dim(blocks * l.size * stride) == size; }
};
using AxisMaps = std::vector<std::vector<LoopIndex>>;  // by axis: its loops, the outermost first; none: it is read whole

struct IndexMaps {
  std::vector<Loop> loops;                  // of 2 iterations or more; none: the results need all of the operands
  std::vector<AxisMaps> operands, results;  // absent operands have no axes
  std::vector<size_t> counted;              // loops whose size is an attribute: heads of an attention, groups
};

// The maps of a node. Symbolic dims have no loops. O(operands * rank).
IndexMaps index_maps(const Graph&, NodeId);

}  // namespace rlxc
