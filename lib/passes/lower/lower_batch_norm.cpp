#include "passes/lower/lower_batch_norm.h"

#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"

namespace rlxc {

PassResult lower_batch_norm(Module& m, PassContext&) {
  int64_t lowered = 0;
  for (GraphId id : graphs_in_use(m)) lowered += legalise::expand_all(m.graph(id), OpKind::BatchNormInference);
  return {lowered > 0, {{"nodes_lowered", lowered}}};
}

}  // namespace rlxc
