// Counts the out-of-range indices that a node reads from an operand. The node's own kernels clamp them.
#include "codegen/lower.h"
#include "codegen/lowerings.h"
#include "codegen/selection.h"

namespace rlxc::codegen {
namespace {

struct IndexRow {
  OpKind op;
  uint32_t data, indices;  // operands
};
constexpr IndexRow kIndices[] = {
    {OpKind::Gather, 0, 1},
    {OpKind::GatherElements, 0, 1},
    {OpKind::GatherNd, 0, 1},
    {OpKind::ScatterElements, 0, 1},
    {OpKind::ScatterNd, 0, 1},
    {OpKind::GroupedMatMul, 1, 2},
    {OpKind::FusedRopeAppend, kRopeAppendCaches, kRopeAppendCaches + 2},
};

// Returns the axes of the data that an index tuple addresses.
std::vector<size_t> indexed_axes(const Node& node) {
  const auto from = [&](int64_t first) {
    std::vector<size_t> axes;
    for (int64_t d = 0; d < node.table().constant_value(node.dims(1).back()).value_or(0); ++d)
      axes.push_back(static_cast<size_t>(first + d));
    return axes;
  };
  switch (node.op()) {
    case OpKind::GatherNd: return from(node.attrs<BatchDimsAttrs>().batch_dims);
    case OpKind::ScatterNd: return from(0);
    case OpKind::ScatterElements: return {static_cast<size_t>(node.attrs<ScatterAttrs>().axis)};
    case OpKind::GroupedMatMul: return {0};
    case OpKind::FusedRopeAppend: return {2};
    default: return {static_cast<size_t>(node.attrs<AxisAttrs>().axis)};
  }
}

}  // namespace

std::optional<NodeKernels> lower_index_check(const Graph& g, const GraphLayouts& layouts, NodeId n, const CapabilityRow& row,
                                             ValueId* indices) {
  for (const IndexRow& r : kIndices) {
    if (r.op != g.op(n)) continue;
    Node node{g, layouts, n, row};
    *indices = node.in(r.indices);
    const std::vector<size_t> axes = indexed_axes(node);
    if (axes.empty()) return std::nullopt;
    const auto depth = static_cast<int64_t>(axes.size());
    Scope s(node, "check_indices");
    auto& b = s.builder();
    const Expr groups = kernel::product(s.kernel(), s.shape(node.dims(r.indices))) / depth;
    std::vector<Expr> limits;
    for (size_t axis : axes) limits.push_back(s.size(node.dims(r.data)[axis]).in(s.kernel()));
    Buf index = s.in_buf(r.indices), count = writable(s, s.bad_indices());
    kernel::for_each(b, node.mapping(), "once", 1, 8, [&](Expr) {
      Buf bad = b.variable("bad", count[0]);
      b.loop("i", groups, [&](Expr i) {
        for (int64_t d = 0; d < depth; ++d) {
          const Expr v = b.let("v", cast_to(index[i * depth + d], DType::I64)), limit = limits[static_cast<size_t>(d)];
          const Expr low = g.op(n) == OpKind::GroupedMatMul ? b.i64(0) : 0 - limit;
          bad.set(bad.get() + cast_to(v < low || v >= limit, DType::I64));
        }
      });
      count.store(0, bad.get());
    });
    s.finish();
    return std::move(node.out);
  }
  return std::nullopt;
}

}  // namespace rlxc::codegen
