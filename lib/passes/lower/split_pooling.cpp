// Writes maxima and minima over large windows as pooling along one axis after another, as in spatial pyramids: a window of k x k
// takes 2k instead of k * k elements, for one more launch and image. Exact: the order of maxima does not matter. O(nodes).
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

constexpr int64_t kLeastSaving = 4;  // elements of the window for each element of the windows of all axes

bool pays(const PoolAttrs& a) {
  if (a.op != ReduceOp::Max && a.op != ReduceOp::Min) return false;
  double all = 1, alone = 0;
  for (int64_t k : a.kernel) {
    all *= static_cast<double>(k);
    alone += static_cast<double>(k);
  }
  return all >= kLeastSaving * alone;
}

std::vector<ValueId> by_axes(legalise::Expansion& e) {
  const PoolAttrs a = e.attrs<PoolAttrs>();
  if (!pays(a)) return {};
  ValueId v = e.in(0);
  for (size_t d = a.kernel.size(); d-- > 0;) {
    PoolAttrs one = a;
    for (size_t other = 0; other < a.kernel.size(); ++other)
      if (other != d) {
        one.kernel[other] = one.strides[other] = one.dilations[other] = 1;
        one.pads_begin[other] = one.pads_end[other] = 0;
      }
    v = e.b.create(OpKind::Pool, {v}, one);
    if (!v.valid()) return {};
  }
  return {v};
}

}  // namespace

PassResult split_pooling(Module& m, PassContext&) {
  int64_t split = 0;
  for (GraphId id : graphs_in_use(m)) split += legalise::expand_all(m.graph(id), OpKind::Pool, by_axes);
  return {split > 0, {{"nodes_split", split}}};
}

}  // namespace rlxc
