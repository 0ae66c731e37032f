// Which dims of the operands and results of a node may be split together. A factor is a loop of the computation: a dim of the
// result, or one that a contraction or reduction sums over. All dims of a factor are split alike.
#pragma once
#include <vector>

#include "ir/graph.h"
#include "shard/sharding.h"

namespace rlxc::shard {

struct Factor {
  enum class Kind : uint8_t {
    Map,     // each device computes its part of the result
    Reduce,  // each device computes the whole result of its part; `op` combines these
    Lookup,  // rows of a table, or matrices, that indices select
    Window,  // positions of a window that moves over rows of the operand, `stride` for each position
  };
  int64_t size = 0;
  Kind kind = Kind::Map;
  ReduceOp op = ReduceOp::Sum;
  // Window: rows that a device needs of the device before it and the next one; negative: rows of its own that it does not need.
  int64_t stride = 1, before = 0, after = 0;
  // Whether so many parts of a factor that is split in this way have equal sizes. Windows have no padding, and reach no further
  // than the next device.
  bool divides(int64_t parts, const DimSharding&) const;
  int64_t part(int64_t parts, const DimSharding& s) const { return (size + s.padding) / parts; }
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

// Returns the factor whose split gives `s` for a dim of this size, and sets `of_factor` to that split. Of several, the one with
// the most blocks. Null if there is none, or the dim is not split.
const DimFactor* split_factor(const Rule&, const std::vector<DimFactor>& dim, Dim size, const DimSharding& s,
                              DimSharding* of_factor);
// How a dim of this size is split if its factor is split as `s` says. Padding of blocks is none that local_type accepts.
DimSharding split_dim(const Rule&, const DimFactor&, Dim size, const DimSharding& s);

// The rule of a node. Symbolic dims have no factors. Kinds without a rule, control flow among them, have none. O(operands +
// dims).
Rule rule_of(const Graph&, NodeId);

}  // namespace rlxc::shard
