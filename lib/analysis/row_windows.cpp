#include "analysis/row_windows.h"

#include <algorithm>

#include "ir/op_rules.h"
#include "ir/region.h"

namespace rlxc {
namespace {

constexpr size_t kImageRows = 2;  // the axis of the rows of an image [N, C, H, ...]

using Rule = bool (*)(const Graph&, NodeId, RowMap*);

int64_t size_at(const Graph& g, ValueId v, size_t axis) {
  const auto dims = g.dims(v);
  return axis < dims.size() && dims[axis].is_static() ? dims[axis].size() : 0;
}

int64_t rows_of(const Graph& g, NodeId n, const RowMap& m) { return size_at(g, g.result(n), m.axis); }

size_t rank_of(const Graph& g, ValueId v) { return static_cast<size_t>(g.rank(v)); }

// The operand has the same rows as the result, or one value for all of them: its last axis belongs to that of the result.
bool broadcast(const Graph& g, NodeId n, size_t i, RowMap* m) {
  const ValueId v = g.operand(n, i);
  if (!v.valid()) return true;
  const size_t rank = rank_of(g, g.result(n)), own = rank_of(g, v);
  if (own > rank) return false;
  if (m->axis < rank - own) return true;
  const size_t axis = m->axis - (rank - own);
  const int64_t size = size_at(g, v, axis);
  if (size == rows_of(g, n, *m)) m->operands[i] = RowWindow{axis};
  return size == rows_of(g, n, *m) || size == 1;
}

bool broadcast_from(const Graph& g, NodeId n, size_t first, RowMap* m) {
  for (size_t i = first; i < g.operands(n).size(); ++i)
    if (!broadcast(g, n, i, m)) return false;
  return true;
}

bool elementwise(const Graph& g, NodeId n, RowMap* m) { return broadcast_from(g, n, 0, m); }

// The operand has the rows of the result at this axis.
bool same_rows(const Graph& g, NodeId n, size_t i, size_t axis, RowMap* m) {
  m->operands[i] = RowWindow{axis};
  return size_at(g, g.operand(n, i), axis) == rows_of(g, n, *m);
}

bool first_operand(const Graph& g, NodeId n, RowMap* m) { return same_rows(g, n, 0, m->axis, m); }

// Convolutions and pooling.
bool windows(RowMap* m, int64_t stride, int64_t before, int64_t kernel, int64_t dilation) {
  m->operands[0] = RowWindow{kImageRows, stride, before, (kernel - 1) * dilation + 1};
  return m->axis == kImageRows;
}

bool convolution(const Graph& g, NodeId n, const ConvAttrs& a, size_t extras, RowMap* m) {
  if (a.strides.empty() || rank_of(g, g.operand(n, 1)) <= kImageRows) return false;
  const int64_t kernel = size_at(g, g.operand(n, 1), kImageRows);
  return kernel > 0 && windows(m, a.strides[0], a.pads_begin[0], kernel, a.dilations[0]) && broadcast_from(g, n, extras, m);
}
bool conv(const Graph& g, NodeId n, RowMap* m) { return convolution(g, n, g.attrs<ConvAttrs>(n), 3, m); }
bool fused_conv(const Graph& g, NodeId n, RowMap* m) { return convolution(g, n, g.attrs<FusedConvAttrs>(n).conv, 3, m); }
bool integer_conv(const Graph& g, NodeId n, RowMap* m) { return convolution(g, n, g.attrs<ConvAttrs>(n), kQuantOperands, m); }
bool fused_integer_conv(const Graph& g, NodeId n, RowMap* m) {
  return convolution(g, n, g.attrs<FusedQConvAttrs>(n).conv, kQuantOperands, m);
}

bool pool(const Graph& g, NodeId n, RowMap* m) {
  const auto& a = g.attrs<PoolAttrs>(n);
  return !a.kernel.empty() && windows(m, a.strides[0], a.pads_begin[0], a.kernel[0], a.dilations[0]);
}

bool pad(const Graph& g, NodeId n, RowMap* m) {
  const auto& a = g.attrs<PadAttrs>(n);
  const Dim before = a.before[m->axis], after = a.after[m->axis];
  if (before == Dim(0) && after == Dim(0)) return first_operand(g, n, m);
  m->operands[0] = RowWindow{m->axis, 1, before.is_static() ? before.size() : -1};
  return a.mode == PadMode::Constant && before.is_static() && after.is_static() && before.size() >= 0 && after.size() >= 0;
}

bool transpose(const Graph& g, NodeId n, RowMap* m) {
  return same_rows(g, n, 0, static_cast<size_t>(g.attrs<PermAttrs>(n).perm[m->axis]), m);
}

// The dims before the rows have the same product on both sides.
bool reshape(const Graph& g, NodeId n, RowMap* m) {
  const auto product = [&](ValueId v, size_t end) {
    int64_t p = 1;
    for (size_t i = 0; i < end; ++i) p = size_at(g, v, i) > 0 && p < int64_t{1} << 31 ? p * size_at(g, v, i) : -1;
    return p;
  };
  const ValueId x = g.operand(n, 0);
  const int64_t outer = product(g.result(n), m->axis);
  for (size_t axis = 0; outer > 0 && axis < rank_of(g, x); ++axis)
    if (product(x, axis) == outer && same_rows(g, n, 0, axis, m)) return true;
  return false;
}

bool part(const Graph& g, NodeId n, RowMap* m) {
  const int64_t axis = g.op(n) == OpKind::Narrow ? g.attrs<NarrowAttrs>(n).axis : g.attrs<SliceAttrs>(n).axis;
  return static_cast<size_t>(axis) != m->axis && first_operand(g, n, m);
}

bool concat(const Graph& g, NodeId n, RowMap* m) {
  if (static_cast<size_t>(g.attrs<AxisAttrs>(n).axis) == m->axis) return false;
  for (size_t i = 0; i < g.operands(n).size(); ++i)
    if (!same_rows(g, n, i, m->axis, m)) return false;
  return true;
}

bool reduce(const Graph& g, NodeId n, RowMap* m) {
  const auto& a = g.attrs<ReduceAttrs>(n);
  const auto reduced = [&](size_t axis) { return std::ranges::find(a.axes, static_cast<int64_t>(axis)) != a.axes.end(); };
  size_t axis = 0, left = m->axis;  // the operand's axis, behind as many kept ones
  for (; axis < rank_of(g, g.operand(n, 0)); ++axis) {
    if (!a.keep_dim && reduced(axis)) continue;
    if (left-- == 0) break;
  }
  return !reduced(axis) && same_rows(g, n, 0, axis, m);
}

bool softmax(const Graph& g, NodeId n, RowMap* m) {
  return static_cast<size_t>(g.attrs<AxisAttrs>(n).axis) != m->axis && first_operand(g, n, m);
}

// Norms over the axes from one behind the rows on.
bool norm(const Graph& g, NodeId n, RowMap* m) {
  return m->axis < static_cast<size_t>(g.attrs<NormAttrs>(n).axis) && broadcast_from(g, n, 0, m);
}
bool norm_region(const Graph& g, NodeId n, RowMap* m) {
  const auto& a = g.attrs<NormRegionAttrs>(n);
  return a.steps[last_norm_step(a.steps)].op != OpKind::GroupNorm && m->axis < static_cast<size_t>(a.axis) &&
         broadcast_from(g, n, 0, m);
}
bool batch_norm(const Graph& g, NodeId n, RowMap* m) {
  return static_cast<size_t>(g.attrs<NormAttrs>(n).axis) != m->axis && first_operand(g, n, m);
}
bool lrn(const Graph& g, NodeId n, RowMap* m) { return m->axis >= kImageRows && first_operand(g, n, m); }

bool quantize(const Graph& g, NodeId n, RowMap* m) {
  const auto& a = g.attrs<QuantAttrs>(n);
  const ValueId scale = g.operand(n, 1);
  const bool one = num_elements(g.type(scale)) == 1;
  return a.block == 0 && (one || (static_cast<size_t>(a.axis) != m->axis && rank_of(g, scale) == 1)) && first_operand(g, n, m);
}

// Rows of the left matrix, with one right matrix for all of them.
bool product(const Graph& g, NodeId n, RowMap* m) {
  const ValueId x = g.operand(n, 0), y = g.result(n);
  const size_t rank = rank_of(g, y);
  if (rank < 2 || rank_of(g, x) != rank || m->axis + 2 > rank) return false;
  if (m->axis + 2 < rank && rank_of(g, g.operand(n, 1)) != 2) return false;
  return first_operand(g, n, m) && broadcast_from(g, n, 2, m);
}
bool matmul(const Graph& g, NodeId n, RowMap* m) { return !g.attrs<MatMulAttrs>(n).trans_a && product(g, n, m); }
bool fused_matmul(const Graph& g, NodeId n, RowMap* m) { return !g.attrs<FusedMatMulAttrs>(n).trans_a && product(g, n, m); }

bool swiglu(const Graph& g, NodeId n, RowMap* m) { return m->axis + 1 < rank_of(g, g.result(n)) && first_operand(g, n, m); }

constexpr struct {
  OpKind op;
  Rule rule;
} kRules[] = {
    {OpKind::Conv, conv},
    {OpKind::FusedConvBiasAct, fused_conv},
    {OpKind::QConv, integer_conv},
    {OpKind::FusedQConv, fused_integer_conv},
    {OpKind::Pool, pool},
    {OpKind::Pad, pad},
    {OpKind::Transpose, transpose},
    {OpKind::Reshape, reshape},
    {OpKind::Narrow, part},
    {OpKind::Slice, part},
    {OpKind::Concat, concat},
    {OpKind::Expand, elementwise},
    {OpKind::ElementwiseRegion, elementwise},
    {OpKind::Reduce, reduce},
    {OpKind::Softmax, softmax},
    {OpKind::LogSoftmax, softmax},
    {OpKind::LayerNorm, norm},
    {OpKind::RmsNorm, norm},
    {OpKind::FusedResidualLN, norm},
    {OpKind::FusedResidualRmsNorm, norm},
    {OpKind::NormRegion, norm_region},
    {OpKind::BatchNormInference, batch_norm},
    {OpKind::Lrn, lrn},
    {OpKind::Quantize, quantize},
    {OpKind::Dequantize, quantize},
    {OpKind::MatMul, matmul},
    {OpKind::FusedMatMulBiasAct, fused_matmul},
    {OpKind::FusedMatMulSwiGLU, product},
    {OpKind::FusedSwiGLU, swiglu},
};

Rule rule_of(OpKind op) {
  if (has_trait(op, kElementwise)) return elementwise;
  const auto* row = std::ranges::find(kRules, op, [](const auto& r) { return r.op; });
  return row == std::end(kRules) ? nullptr : row->rule;
}

// Whether all results have rows at the axis, equally many.
bool has_rows(const Graph& g, NodeId n, size_t axis) {
  for (size_t r = 0; r < g.result_count(n); ++r) {
    const Type& t = g.type(g.result(n, r));
    if (t.kind != TypeKind::Tensor || t.dims.size() <= axis || !t.dims[axis].is_static() || t.dims[axis].size() < 1 ||
        t.dims[axis] != g.dims(g.result(n))[axis])
      return false;
  }
  return g.result_count(n) > 0;
}

// Windows at an edge keep the padding there; those inside have none.
void clip(const RowWindow& w, RowRange out, int64_t rows, int64_t* begin, int64_t* end) {
  *begin = std::max<int64_t>(w.before - out.begin * w.stride, 0);
  const int64_t beyond = (out.end - 1) * w.stride - w.before + w.reach - rows;
  *end = std::min(std::max<int64_t>(beyond, 0), *end);
}

}  // namespace

std::optional<RowMap> map_rows(const Graph& g, NodeId n, size_t axis) {
  const Rule rule = has_trait(g.op(n), kImpure | kBody | kSequenceOp) ? nullptr : rule_of(g.op(n));
  if (!rule || !has_rows(g, n, axis)) return std::nullopt;
  RowMap m{axis, std::vector<std::optional<RowWindow>>(g.operands(n).size())};
  for (ValueId v : g.operands(n))
    if (v.valid() && g.type(v).kind != TypeKind::Tensor) return std::nullopt;
  if (!rule(g, n, &m)) return std::nullopt;
  for (size_t i = 0; i < m.operands.size(); ++i)
    if (m.operands[i] && size_at(g, g.operand(n, i), m.operands[i]->axis) < 1) return std::nullopt;
  return m;
}

RowRange rows_read(const RowWindow& w, RowRange r, int64_t rows) {
  const int64_t begin = std::max<int64_t>(r.begin * w.stride - w.before, 0);
  const int64_t end = std::min((r.end - 1) * w.stride - w.before + w.reach, rows);
  return {begin, std::max(begin, end)};
}

Attrs attrs_of_rows(const Graph& g, NodeId n, const RowMap& m, RowRange r) {
  Attrs attrs = g.module().attrs[g.attr_id(n)];
  const auto cut = [&](auto* before, auto* after) {
    const int64_t rows = size_at(g, g.operand(n, 0), m.operands[0]->axis);
    clip(*m.operands[0], r, rows, before, after);
  };
  switch (g.op(n)) {
    case OpKind::Conv:
    case OpKind::QConv: {
      auto& a = std::get<ConvAttrs>(attrs);
      cut(&a.pads_begin[0], &a.pads_end[0]);
      break;
    }
    case OpKind::FusedConvBiasAct: {
      auto& a = std::get<FusedConvAttrs>(attrs).conv;
      cut(&a.pads_begin[0], &a.pads_end[0]);
      break;
    }
    case OpKind::FusedQConv: {
      auto& a = std::get<FusedQConvAttrs>(attrs).conv;
      cut(&a.pads_begin[0], &a.pads_end[0]);
      break;
    }
    case OpKind::Pool: {
      auto& a = std::get<PoolAttrs>(attrs);
      cut(&a.pads_begin[0], &a.pads_end[0]);
      break;
    }
    case OpKind::Pad: {
      auto& a = std::get<PadAttrs>(attrs);
      int64_t before = a.before[m.axis].size(), after = a.after[m.axis].size();
      cut(&before, &after);
      a.before[m.axis] = Dim(before);
      a.after[m.axis] = Dim(after);
      break;
    }
    case OpKind::Reshape:
    case OpKind::Expand: std::get<DimsAttrs>(attrs).dims[m.axis] = Dim(r.size()); break;
    default: break;
  }
  return attrs;
}

}  // namespace rlxc
