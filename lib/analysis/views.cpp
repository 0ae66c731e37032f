#include "analysis/views.h"

namespace rlxc {
namespace {

// Elements of a narrow along `axis` lie together when every earlier axis has size 1.
std::optional<Dim> narrow_offset(const Graph& g, NodeId n) {
  const auto& a = g.attrs<NarrowAttrs>(n);
  const Type& t = g.type(g.operand(n, 0));
  const int width = bits(t.dtype);
  if (width == 0 || width % 8 != 0) return std::nullopt;
  for (int64_t i = 0; i < a.axis; ++i)
    if (t.dims[static_cast<size_t>(i)] != Dim(1)) return std::nullopt;
  DimTable& dims = g.module().dims;
  Dim offset = dims.mul(a.start, Dim(width / 8));
  for (size_t i = static_cast<size_t>(a.axis) + 1; i < t.dims.size(); ++i) offset = dims.mul(offset, t.dims[i]);
  return offset;
}

constexpr size_t kFewReaders = 16;

bool keeps_order(const Graph& g, NodeId n) {
  const auto& perm = g.attrs<PermAttrs>(n).perm;
  const auto dims = g.dims(g.operand(n, 0));
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (dims[static_cast<size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

}  // namespace

bool takes_rows_at_a_distance(const Graph& g, Graph::Use use) {
  if (g.op(use.user) == OpKind::Attention)
    return use.index < 3 && g.attrs<AttentionAttrs>(use.user).layout == AttentionLayout::Packed;
  return g.op(use.user) == OpKind::Rope && use.index == 0 && g.attrs<RopeAttrs>(use.user).layout == AttentionLayout::Packed;
}

bool is_row_part(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Narrow || narrow_offset(g, n)) return false;
  const ValueId v = g.result(n);
  const int width = bits(g.dtype(v));
  if (g.attrs<NarrowAttrs>(n).axis != g.rank(v) - 1 || width == 0 || width % 8 != 0) return false;
  if (g.use_count(v) == 0 || g.use_count(v) > kFewReaders) return false;
  for (const auto use : g.uses(v))
    if (!takes_rows_at_a_distance(g, use)) return false;
  return true;
}

Dim row_distance(const Graph& g, ValueId v) {
  const NodeId n = g.def(v);
  return g.dims(is_row_part(g, n) ? g.operand(n, 0) : v).back();
}

std::optional<View> view_of(const Graph& g, NodeId n) {
  const auto whole = [&](bool is_view) { return is_view ? std::optional<View>({g.operand(n, 0), Dim(0)}) : std::nullopt; };
  switch (g.op(n)) {
    case OpKind::Reshape: return whole(true);
    case OpKind::Cast: return whole(g.dtype(g.operand(n, 0)) == g.attrs<CastAttrs>(n).to);
    case OpKind::Transpose: return whole(keeps_order(g, n));
    case OpKind::Expand:
      return whole(
          g.module().dims.equal(g.module().dims.product(g.dims(g.operand(n, 0))), g.module().dims.product(g.dims(g.result(n)))));
    case OpKind::Concat: return whole(g.operands(n).size() == 1);
    case OpKind::Narrow:
      if (auto offset = narrow_offset(g, n)) return View{g.operand(n, 0), *offset};
      if (is_row_part(g, n)) {
        DimTable& dims = g.module().dims;
        return View{g.operand(n, 0), dims.mul(g.attrs<NarrowAttrs>(n).start, Dim(bits(g.dtype(g.operand(n, 0))) / 8))};
      }
      return std::nullopt;
    default: return std::nullopt;
  }
}

ViewRoots resolve_views(const Graph& g) {
  ViewRoots r;
  r.root.resize(g.value_capacity());
  r.offset.resize(g.value_capacity());
  for (NodeId n : g.nodes()) {
    for (size_t i = 0; i < g.result_count(n); ++i) r.root[g.result(n, i).raw] = g.result(n, i);
    if (auto view = view_of(g, n)) {
      const ValueId v = g.result(n);
      r.root[v.raw] = r.root[view->of.raw];
      r.offset[v.raw] = g.module().dims.add(r.offset[view->of.raw], view->byte_offset);
    }
  }
  return r;
}

}  // namespace rlxc
