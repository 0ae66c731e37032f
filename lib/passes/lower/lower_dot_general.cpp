// Decomposes every DotGeneral into transposes, reshapes and one MatMul. Axes already in place need no transpose; a swap of two
// axes becomes a flag of the matmul. O(nodes).
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {

PassResult lower_dot_general(Module& m, PassContext&) {
  int64_t lowered = 0;
  for (GraphId id : graphs_in_use(m)) lowered += legalise::expand_all(m.graph(id), OpKind::DotGeneral);
  return {lowered > 0, {{"nodes_lowered", lowered}}};
}

}  // namespace rlxc
