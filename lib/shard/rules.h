// Which dims of the operands and results of a node may be split together. A factor is a loop of the computation: a dim of the
// result, or one that a contraction or reduction sums over. All dims of a factor are split alike.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace rlxc::shard {

struct Factor {
  enum class Kind : uint8_t {
    Map,     // each device computes its part of the result
    Reduce,  // each device computes the whole result of its part; `op` combines these
    Lookup,  // rows of a table, or matrices, that indices select
    Window,  // positions of a window that moves over rows of the operand, `stride` for each position
  };
  int64_t size = 0;  // the number of parts divides it
  Kind kind = Kind::Map;
  ReduceOp op = ReduceOp::Sum;
  // Window: rows that a device needs of the device before it and the next one; negative: rows of its own that it does not need.
  int64_t stride = 1, before = 0, after = 0;
  // Whether this many parts of each block have equal sizes, and windows reach no further than the next device.
  bool divides(int64_t parts, int64_t blocks) const;
};

// A dim of size blocks * size of factor * rest, split within each block.
struct DimFactor {
  size_t factor;
  int64_t blocks = 1;
  bool operator==(const DimFactor&) const = default;
};

struct Rule {
  std::vector<Factor> factors;  // empty: every device computes the whole node
  // By operand or result, by dim: the factors that it may be split by, the outermost first; none: it must be whole.
  std::vector<std::vector<std::vector<DimFactor>>> operands, results;
  // Attributes to divide by the number of parts of this factor: heads of an attention, groups of a convolution or norm.
  std::vector<size_t> counted;
};

// The rule of a node. Symbolic dims have no factors. Kinds without a rule, control flow among them, have none. O(operands +
// dims).
Rule rule_of(const Graph&, NodeId);

}  // namespace rlxc::shard
