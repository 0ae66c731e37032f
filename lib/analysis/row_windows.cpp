#include "analysis/row_windows.h"

#include <algorithm>

#include "ir/index_maps.h"
#include "ir/region.h"

namespace rlxc {
namespace {

constexpr size_t kSpatial = 2;  // the first spatial axis of an image [N, C, H, ...]

int64_t size_at(const Graph& g, ValueId v, size_t axis) {
  const auto dims = g.dims(v);
  return axis < dims.size() && dims[axis].is_static() ? dims[axis].size() : 0;
}

// The outermost loop over an axis. Null if there is none, or if the loop is part of another axis, too.
const LoopIndex* outermost(const AxisMaps& axes, size_t axis, size_t loop) {
  const LoopIndex* found = nullptr;
  for (size_t d = 0; d < axes.size(); ++d)
    for (const LoopIndex& index : axes[d])
      if (index.loop == loop) {
        if (found || d != axis || index.blocks != 1) return nullptr;
        found = &index;
      }
  return found;
}

struct Iterations {
  int64_t begin = 0, end = 0;
};
Iterations iterations(const RowMap& m, RowRange r) { return {r.begin / m.group, (r.end + m.group - 1) / m.group}; }

// Windows at an edge keep the padding there; those inside have none.
void clip(const RowWindow& w, Iterations out, int64_t rows, int64_t* begin, int64_t* end) {
  *begin = std::max<int64_t>(w.before - out.begin * w.stride, 0);
  const int64_t beyond = (out.end - 1) * w.stride - w.before + w.reach - rows;
  *end = std::min(std::max<int64_t>(beyond, 0), *end);
}

// Rows beyond the wanted ones are cut off as padding. Missing rows are zeros.
void clip_transposed(ConvAttrs* a, size_t k, int64_t taps, RowRange computed, RowRange read) {
  const int64_t first = read.begin * a->strides[k] - a->pads_begin[k];  // of the rows that the sums without padding are
  const int64_t end = first + (read.size() - 1) * a->strides[k] + (taps - 1) * a->dilations[k] + 1;
  a->pads_begin[k] = computed.begin - first;
  a->pads_end[k] = std::max<int64_t>(end - computed.end, 0);
  a->output_padding.resize(a->strides.size());
  a->output_padding[k] = std::max<int64_t>(computed.end - end, 0);
}

}  // namespace

std::optional<RowMap> map_rows(const Graph& g, NodeId n, size_t axis) {
  if (has_trait(g.op(n), kImpure | kBody | kSequenceOp | kCollective)) return std::nullopt;
  const IndexMaps maps = index_maps(g, n);
  if (maps.results.empty() || maps.results[0].size() <= axis) return std::nullopt;
  const int64_t rows = size_at(g, g.result(n), axis);
  for (const LoopIndex& rows_loop : maps.results[0][axis]) {
    const Loop& loop = maps.loops[rows_loop.loop];
    if (rows_loop.blocks != 1 || loop.kind != Loop::Kind::Parallel) continue;
    RowMap m{axis, std::vector<std::optional<RowWindow>>(maps.operands.size()), rows_loop.stride};
    for (size_t r = 0; r < maps.results.size(); ++r) {
      const LoopIndex* index = outermost(maps.results[r], axis, rows_loop.loop);
      if (!index || index->stride != m.group || size_at(g, g.result(n, r), axis) != rows) return std::nullopt;
    }
    for (size_t i = 0; i < maps.operands.size(); ++i)
      for (size_t d = 0; d < maps.operands[i].size(); ++d)
        for (const LoopIndex& each : maps.operands[i][d]) {
          if (each.loop != rows_loop.loop) continue;
          if (!outermost(maps.operands[i], d, each.loop) || size_at(g, g.operand(n, i), d) < 1) return std::nullopt;
          m.operands[i] = RowWindow{d, each.stride, each.before, each.reach};
        }
    if (g.op(n) == OpKind::Resize && m.group > 1) {
      m.around = m.operands[0]->before;
      m.operands[0] = RowWindow{m.operands[0]->axis};
    }
    if (std::ranges::find(maps.counted, rows_loop.loop) != maps.counted.end()) m.iterations = loop.size;
    return m;
  }
  return std::nullopt;
}

RowRange rows_computed(const RowMap& m, RowRange wanted, int64_t rows) {
  if (wanted.size() == 0) return wanted;
  const Iterations i = iterations(m, wanted);
  return {std::max<int64_t>((i.begin - m.around) * m.group, 0), std::min((i.end + m.around) * m.group, rows)};
}

RowRange rows_read(const RowMap& m, size_t operand, RowRange computed, int64_t rows) {
  const RowWindow& w = *m.operands[operand];
  const Iterations i = iterations(m, computed);
  const int64_t begin = std::max<int64_t>(i.begin * w.stride - w.before, 0);
  const int64_t end = std::min((i.end - 1) * w.stride - w.before + w.reach, rows);
  return {begin, std::max(begin, end)};
}

Attrs attrs_of_rows(const Graph& g, NodeId n, const RowMap& m, RowRange computed) {
  Attrs attrs = g.module().attrs[g.attr_id(n)];
  const OpKind op = g.op(n);
  const Iterations own = iterations(m, computed);
  const auto part = [&](int64_t* count) {
    if (m.iterations > 0) *count = *count / m.iterations * (own.end - own.begin);
  };
  const auto cut = [&](auto* before, auto* after) {
    clip(*m.operands[0], own, size_at(g, g.operand(n, 0), m.operands[0]->axis), before, after);
  };
  ConvAttrs* conv = conv_attrs(attrs);
  const size_t k = m.axis - kSpatial;
  if (conv) {
    part(&conv->groups);
    if (m.axis >= kSpatial && (op == OpKind::ConvTranspose || op == OpKind::FusedConvTransposeBiasAct))
      clip_transposed(conv, k, size_at(g, g.operand(n, 1), m.axis), computed,
                      rows_read(m, 0, computed, size_at(g, g.operand(n, 0), m.axis)));
    else if (m.axis >= kSpatial) cut(&conv->pads_begin[k], &conv->pads_end[k]);
  }
  if (auto* a = std::get_if<PoolAttrs>(&attrs); a && m.axis >= kSpatial) cut(&a->pads_begin[k], &a->pads_end[k]);
  if (auto* a = std::get_if<PadAttrs>(&attrs); a && (a->before[m.axis] != Dim(0) || a->after[m.axis] != Dim(0))) {
    int64_t before = a->before[m.axis].size(), after = a->after[m.axis].size();
    cut(&before, &after);
    a->before[m.axis] = Dim(before);
    a->after[m.axis] = Dim(after);
  }
  if (auto* a = std::get_if<DimsAttrs>(&attrs); a && (op == OpKind::Reshape || op == OpKind::Expand))
    a->dims[m.axis] = Dim(computed.size());
  if (auto* a = std::get_if<ResizeAttrs>(&attrs)) a->sizes[m.axis] = Dim(computed.size());
  if (auto* a = std::get_if<GroupNormAttrs>(&attrs)) part(&a->groups);
  if (auto* a = std::get_if<AttentionAttrs>(&attrs)) {
    part(&a->num_heads);
    part(&a->num_kv_heads);
  }
  return attrs;
}

}  // namespace rlxc
