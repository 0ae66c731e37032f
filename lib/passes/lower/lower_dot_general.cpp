// Writes every DotGeneral as transposes, reshapes and one MatMul, whatever its batch, contracting and free axes are. Axes that
// are in place already cost nothing; two that only swap become a flag of the matmul. O(nodes).
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
