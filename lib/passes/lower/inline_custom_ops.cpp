// Replaces operations of --ops by their bodies, which later passes see whole. Bodies may contain such operations. O(created
// nodes).
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {

PassResult inline_custom_ops(Module& m, PassContext&) {
  int64_t inlined = 0;
  for (int64_t found = -1; found != 0; inlined += found) {
    found = 0;
    for (GraphId id : graphs_in_use(m)) found += legalise::expand_all(m.graph(id), OpKind::CustomOp);
  }
  return {inlined > 0, {{"nodes_inlined", inlined}}};
}

}  // namespace rlxc
