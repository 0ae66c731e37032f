// Transposes inputs and stacked results of a Scan so that it scans axis 0, the only axis the host code supports. O(nodes).
#include <algorithm>
#include <numeric>

#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

// The permutation that moves an axis to the front, or the first axis to this position.
std::vector<int64_t> rotation(int rank, int64_t axis, bool to_front) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  if (to_front) std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
  else std::rotate(perm.begin(), perm.begin() + 1, perm.begin() + axis + 1);
  return perm;
}

std::vector<ValueId> axes_first(legalise::Expansion& e) {
  ScanAttrs a = e.attrs<ScanAttrs>();
  const auto is_first = [](int64_t axis) { return axis == 0; };
  if (std::ranges::all_of(a.input_axes, is_first) && std::ranges::all_of(a.output_axes, is_first)) return {};
  const auto states = static_cast<size_t>(a.states);
  std::vector<ValueId> operands(e.g.operands(e.n).begin(), e.g.operands(e.n).end());
  for (size_t i = 0; i < a.input_axes.size(); ++i) {
    ValueId& v = operands[states + i];
    v = e.b.transpose(v, rotation(e.g.rank(v), a.input_axes[i], true));
  }
  const std::vector<int64_t> output_axes = a.output_axes;
  std::ranges::fill(a.input_axes, 0);
  std::ranges::fill(a.output_axes, 0);
  const std::vector<GraphId> bodies(e.g.bodies(e.n).begin(), e.g.bodies(e.n).end());
  const NodeId scan = e.b.create_node(OpKind::Scan, operands, std::move(a), bodies);
  std::vector<ValueId> results;
  for (size_t r = 0; r < e.g.result_count(scan); ++r) {
    const ValueId v = e.g.result(scan, r);
    results.push_back(r < states ? v : e.b.transpose(v, rotation(e.g.rank(v), output_axes[r - states], false)));
  }
  return results;
}

}  // namespace

PassResult lower_scan_axes(Module& m, PassContext&) {
  int64_t lowered = 0;
  for (GraphId id : graphs_in_use(m)) lowered += legalise::expand_all(m.graph(id), OpKind::Scan, axes_first);
  return {lowered > 0, {{"nodes_lowered", lowered}}};
}

}  // namespace rlxc
