// Work and traffic of a node, for reports and fusion decisions. Zero where a size is symbolic.
#pragma once
#include "ir/graph.h"

namespace rlxc {

struct Cost {
  double flops = 0;  // multiplications and additions of contractions count 2
  int64_t bytes_read = 0, bytes_written = 0;
};

Cost node_cost(const Graph&, NodeId);

}  // namespace rlxc
