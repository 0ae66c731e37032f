// Interval analysis of integer values, for trip counts of loops and dims computed from shapes and data. Arithmetic is exact:
// overflow is not modelled, so users check a range against the actual value at run time.
#pragma once
#include <unordered_map>
#include <vector>

#include "ir/dim_range.h"
#include "ir/graph.h"

namespace rlxc {

class ValueRanges {
 public:
  explicit ValueRanges(Module&);                     // O(nodes)
  DimRange operator()(const Graph&, ValueId) const;  // over all elements

 private:
  DimRange of_node(const Graph&, NodeId) const;
  DimRange of_step(OpKind, const DimRange& a, const DimRange& b, const DimRange& c) const;
  void enter_bodies(const Graph&, NodeId);

  Module& module_;
  DimTable& dims_;
  std::vector<std::unordered_map<uint32_t, DimRange>> ranges_;  // by graph id, then value id
};

}  // namespace rlxc
