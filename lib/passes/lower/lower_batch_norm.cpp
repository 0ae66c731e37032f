// Decomposes every BatchNormInference that was not folded into a convolution into x*scale + shift. Scale and shift depend on
// parameters only and are computed at load time. O(nodes).
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {

PassResult lower_batch_norm(Module& m, PassContext&) {
  int64_t lowered = 0;
  for (GraphId id : graphs_in_use(m)) lowered += legalise::expand_all(m.graph(id), OpKind::BatchNormInference);
  return {lowered > 0, {{"nodes_lowered", lowered}}};
}

}  // namespace rlxc
