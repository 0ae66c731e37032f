// Between which sizes the elements of integer values lie, as far as the operations that compute them tell: trip counts of loops,
// lengths made of shapes and data. Arithmetic is taken as exact; who relies on a range checks it when the value is there.
#pragma once
#include <unordered_map>
#include <vector>

#include "ir/dim_range.h"
#include "ir/graph.h"

namespace rlxc {

class ValueRanges {
 public:
  explicit ValueRanges(Module&);                     // O(nodes)
  DimRange operator()(const Graph&, ValueId) const;  // of all elements

 private:
  DimRange of_node(const Graph&, NodeId) const;
  DimRange of_step(OpKind, const DimRange& a, const DimRange& b, const DimRange& c) const;
  void enter_bodies(const Graph&, NodeId);

  Module& module_;
  DimTable& dims_;
  std::vector<std::unordered_map<uint32_t, DimRange>> ranges_;  // by graph, by value
};

}  // namespace rlxc
