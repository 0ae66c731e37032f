#include "passes/lower/lower_dot_general.h"

#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"

namespace rlxc {

PassResult lower_dot_general(Module& m, PassContext&) {
  int64_t lowered = 0;
  for (GraphId id : graphs_in_use(m)) lowered += legalise::expand_all(m.graph(id), OpKind::DotGeneral);
  return {lowered > 0, {{"nodes_lowered", lowered}}};
}

}  // namespace rlxc
