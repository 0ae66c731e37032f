#include "analysis/views.h"

#include <algorithm>

#include "analysis/channel_blocks.h"
#include "analysis/repeat_factors.h"
#include "ir/op_rules.h"
#include "ir/region.h"

namespace rlxc {
namespace {

constexpr size_t kFewReaders = 32;  // limit on the uses of a value and of all its views
constexpr size_t kMostMoves = 6;    // limit on the length of a chain of layout ops
// Twice as long, because the operand of a chain may itself be written in its consumer's layout.
constexpr size_t kLongestPath = 2 * kMostMoves;
constexpr int64_t kFewElements = 256;  // that a launch of their own costs more than elementwise steps without vectors
constexpr int64_t kFewRows = 16;  // with fewer rows, a matmul writes neither strided columns nor strided rows without batch dims

bool has_whole_bytes(const Graph& g, ValueId v) {
  const int width = bits(g.dtype(v));
  return width > 0 && width % 8 == 0;
}

bool is_layout_op(OpKind op) { return layout_rule(op) == LayoutRule::View; }

// A Narrow or Slice as a strided range of one axis.
struct Part {
  size_t axis;
  Dim start;
  int64_t step;
};
std::optional<Part> part_of(const Graph& g, NodeId n) {
  if (g.op(n) == OpKind::Narrow) {
    const auto& a = g.attrs<NarrowAttrs>(n);
    return Part{static_cast<size_t>(a.axis), a.start, 1};
  }
  if (g.op(n) != OpKind::Slice || g.attrs<SliceAttrs>(n).step < 1) return std::nullopt;
  const auto& a = g.attrs<SliceAttrs>(n);
  return Part{static_cast<size_t>(a.axis), a.start, a.step};
}

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

// Returns whether the result of a layout op is row-major in memory if its operand is.
bool keeps_row_major(const Graph& g, NodeId n) {
  if (g.op(n) == OpKind::Reshape) return true;
  if (g.op(n) == OpKind::Resize) return false;
  if (g.op(n) == OpKind::Transpose) return keeps_order(g, n);
  const auto p = part_of(g, n);
  const auto d = g.dims(g.operand(n, 0));
  return p && p->step == 1 && std::ranges::all_of(d.first(p->axis), [](Dim size) { return size == Dim(1); });
}

// The layout of a reshaped value, or nullopt if its axes are not products of whole factors or divisors of factors.
std::optional<Layout> reshaped(DimTable& dims, const Layout& from, std::span<const Dim> to) {
  if (!from.starts.empty()) return std::nullopt;
  std::vector<DimFactor> old;  // contiguous neighbours merged
  for (const auto& axis : from.axes)
    for (const DimFactor& p : axis) {
      const bool together = !old.empty() && old.back().stride == dims.mul(p.size, p.stride);
      if (together) old.back() = {dims.mul(old.back().size, p.size), p.stride};
      else old.push_back(p);
    }
  Layout out{std::vector<std::vector<DimFactor>>(to.size())};
  for (size_t i = to.size(); i-- > 0;)
    for (Dim left = to[i]; left != Dim(1);) {
      if (old.empty()) return std::nullopt;
      DimFactor& p = old.back();
      std::vector<DimFactor>& axis = out.axes[i];
      if (dims.equal(left, p.size)) {
        axis.insert(axis.begin(), p);
        old.pop_back();
        break;
      }
      if (dims.divides(left, p.size)) {
        axis.insert(axis.begin(), {left, p.stride});
        p = {dims.floor_div(p.size, left), dims.mul(p.stride, left)};
        break;
      }
      if (!dims.divides(p.size, left)) return std::nullopt;
      left = dims.floor_div(left, p.size);
      axis.insert(axis.begin(), p);
      old.pop_back();
    }
  return old.empty() ? std::optional(std::move(out)) : std::nullopt;
}

// Number of positions of the axis per step of its outermost factor.
Dim inner_size(DimTable& dims, const std::vector<DimFactor>& axis) {
  Dim size(1);
  for (size_t i = 1; i < axis.size(); ++i) size = dims.mul(size, axis[i].size);
  return size;
}

// Returns whether the slice is aligned to the inner factors of the axis.
bool is_whole(DimTable& dims, const Part& p, Dim len, const std::vector<DimFactor>& axis) {
  if (axis.size() <= 1) return true;
  const Dim inner = inner_size(dims, axis);
  return dims.divides(inner, p.start) && dims.divides(inner, len);
}

// Restricts an axis of the layout to a slice. Returns false if the result has no layout.
bool take_part(DimTable& dims, const Part& p, Dim len, Layout* l) {
  std::vector<DimFactor>& axis = l->axes[p.axis];
  const bool whole = is_whole(dims, p, len, axis) && l->start(p.axis) == Dim(0);
  if ((axis.size() > 1 && p.step != 1) || (!whole && len == Dim(1))) return false;
  if (!whole) {
    l->starts.resize(l->axes.size());
    l->starts[p.axis] = dims.add(l->starts[p.axis], p.start);
  } else if (axis.size() > 1) {
    axis[0].size = dims.floor_div(len, inner_size(dims, axis));
    if (axis[0].size == Dim(1)) axis.erase(axis.begin());
  } else if (len == Dim(1)) {
    axis.clear();
  } else {
    axis = {{len, dims.mul(axis.at(0).stride, Dim(p.step))}};
  }
  return true;
}

// Offset of the slice in elements. Zero if the layout records the start instead.
Dim offset_of(DimTable& dims, const Part& p, Dim len, const Layout& l) {
  const std::vector<DimFactor>& axis = l.axes[p.axis];
  if (axis.empty() || !is_whole(dims, p, len, axis) || l.start(p.axis) != Dim(0)) return Dim(0);
  return dims.mul(dims.floor_div(p.start, inner_size(dims, axis)), axis[0].stride);
}

// The layout of the result of a layout op as a view of an operand of layout `l`. Nullopt if elements must be copied.
std::optional<Layout> moved(const Graph& g, NodeId n, Layout l) {
  if (!has_whole_bytes(g, g.result(n))) return std::nullopt;
  DimTable& dims = g.module().dims;
  const auto to = g.dims(g.result(n));
  if (std::ranges::find(to, Dim(0)) != to.end()) return std::nullopt;
  if (g.op(n) == OpKind::Reshape) return reshaped(dims, l, to);
  if (g.op(n) == OpKind::Transpose) {
    Layout out;
    for (int64_t axis : g.attrs<PermAttrs>(n).perm) {
      if (!l.starts.empty()) out.starts.push_back(l.starts[static_cast<size_t>(axis)]);
      out.axes.push_back(std::move(l.axes[static_cast<size_t>(axis)]));
    }
    return out;
  }
  if (g.op(n) == OpKind::Resize) {
    const auto times = repeat_factors(g, n);
    if (!l.starts.empty() || !times) return std::nullopt;
    for (size_t i = 0; i < to.size(); ++i)
      if ((*times)[i] > 1) l.axes[i].push_back({Dim((*times)[i]), Dim(0)});
    return l;
  }
  const auto p = part_of(g, n);
  if (!p || (p->step != 1 && p->axis + 1 == l.axes.size())) return std::nullopt;
  return take_part(dims, *p, to[p->axis], &l) ? std::optional(std::move(l)) : std::nullopt;
}

// Number of trailing axes that a row of a norm spans. Nullopt for other nodes.
std::optional<size_t> axes_of_rows(const Graph& g, NodeId n) {
  if (layout_rule(g.op(n)) != LayoutRule::Norm) return std::nullopt;
  const auto from = [&](int64_t axis) { return static_cast<size_t>(g.rank(g.result(n)) - axis); };
  if (g.op(n) != OpKind::NormRegion) return from(g.attrs<NormAttrs>(n).axis);
  const auto& steps = g.attrs<FusionAttrs>(n).steps;
  const RegionStep& norm = steps[last_norm_step(steps)];
  if (norm.op == OpKind::GroupNorm) return std::nullopt;  // splits channels into groups
  return from(norm_axis(norm));
}

// Returns whether the pixels of each channel of [N, C, ...] have one constant stride.
bool has_planes(DimTable& dims, const Layout& l) {
  if (l.split() || l.axes.size() < 3) return false;
  const DimFactor* inner = nullptr;
  for (size_t i = l.axes.size(); i-- > 2;) {
    if (l.axes[i].empty()) continue;
    const DimFactor& p = l.axes[i][0];
    if (inner && p.stride != dims.mul(inner->size, inner->stride)) return false;
    inner = &p;
  }
  return true;
}

bool are_cheap(std::span<const RegionStep> steps) {
  return std::ranges::all_of(steps, [](const RegionStep& s) { return is_cheap(s.op); });
}

// Returns whether the sole consumer accepts a strided last dim at no more than the cost of a copy.
bool reads_columns(const Graph& g, Graph::Use use, int64_t lanes) {
  const NodeId n = g.only_user(g.operand(use.user, use.index));
  if (!n.valid() || n == g.terminator()) return false;
  const OpKind op = g.op(n);
  if (op == OpKind::LayerNorm || op == OpKind::RmsNorm) return use.index == 0;
  if (op == OpKind::NormRegion && lanes == 0) return true;
  const auto elements = num_elements(g.type(g.result(n)));
  const bool joins = op == OpKind::ConcatRegion;
  if (lanes > 1 && (has_trait(op, kElementwise) || joins) && elements && *elements <= kFewElements) return true;
  if (op != OpKind::ElementwiseRegion && !joins) return has_trait(op, kElementwise) && is_cheap(op);
  if (joins) return are_cheap(g.attrs<ConcatRegionAttrs>(n).steps);
  return are_cheap(g.attrs<FusionAttrs>(n).steps);
}

// `but`: a reader that is not asked.
bool all_take(const Graph& g, ValueId v, const Layout& layout, int64_t lanes, size_t moves, size_t* readers, NodeId but = {}) {
  if (g.use_count(v) == 0 || g.use_count(v) > *readers || moves == 0) return false;
  *readers -= g.use_count(v);
  for (const auto use : g.uses(v)) {
    if (use.user == but || accepts_layout(g, use, layout, lanes)) continue;
    const auto l = is_layout_op(g.op(use.user)) ? moved(g, use.user, layout) : std::nullopt;
    if (!l || !all_take(g, g.result(use.user), *l, lanes, moves - 1, readers)) return false;
  }
  return true;
}

// The layout of the node's result as a view of its row-major operand, if the view is not row-major and all users accept it.
std::optional<Layout> read_in_place(const Graph& g, NodeId n, int64_t lanes) {
  if (keeps_row_major(g, n)) return std::nullopt;
  auto l = moved(g, n, row_major(g.module().dims, g.dims(g.operand(n, 0))));
  size_t readers = kFewReaders;
  return l && all_take(g, g.result(n), *l, lanes, kMostMoves, &readers) ? l : std::nullopt;
}

// Returns whether the kernel accepts strides for its result.
bool has_strided_result(OpKind op) {
  return layout_rule(op) == LayoutRule::Matmul || layout_rule(op) == LayoutRule::MatmulResult;
}

// Returns whether the kernel reads a right operand of contiguous columns as fast as one of contiguous rows: words of a dot unit
// are pieces of columns.
bool reads_columns_of_right(OpKind op) { return op == OpKind::QMatMul || op == OpKind::FusedQMatMul || op == OpKind::QAttention; }

// Returns whether the kernel reads rows of the left operand that are not contiguous: threads of a CPU copy them, once for all
// columns, a grid makes words of them.
bool reads_columns_of_left(OpKind op) { return op == OpKind::QMatMul || op == OpKind::FusedQMatMul; }

bool has_columns(const Layout& l) {
  const size_t rank = l.axes.size();
  return rank >= 2 && !l.split() && !l.axes[rank - 2].empty() && l.axes[rank - 2][0].stride == Dim(1);
}

// A residual is read in the layout of the result.
bool is_residual(OpKind op, size_t operand) {
  return (op == OpKind::FusedMatMulBiasAct && operand == 3) || (op == OpKind::DequantMatMul && operand == 5);
}

bool transposes_left(const Graph& g, NodeId n) {
  if (g.op(n) == OpKind::MatMul) return g.attrs<MatMulAttrs>(n).trans_a;
  return g.op(n) == OpKind::FusedMatMulBiasAct && g.attrs<FusedMatMulAttrs>(n).trans_a;
}

bool concatenates(const Graph& g, NodeId n) { return layout_rule(g.op(n)) == LayoutRule::Concat && g.operands(n).size() > 1; }

// Returns whether the kernel writes parts of its results, each in any layout of rows.
bool writes_parts(const Graph& g, NodeId n) { return concatenates(g, n) || g.op(n) == OpKind::ConcatRegion; }

bool sums_all_channels(const Graph& g, NodeId n) {
  const ConvAttrs* conv = conv_attrs(g, n);
  return conv && conv->groups == 1;
}

// Returns whether a convolution reads the image in layout `l`. Integer windows of single channels that can be computed in vectors
// of channels do so in these, if they may write them, too. Without vectors (`lanes` of 0), the image is read in any layout.
bool reads_image(const Graph& g, NodeId n, const Layout& l, int64_t lanes) {
  constexpr int64_t kMostLanes = 16;
  if (!has_planes(g.module().dims, l)) return false;
  const ConvAttrs* conv = is_integer_conv(g.op(n)) ? conv_attrs(g, n) : nullptr;
  if (!conv || conv->groups == 1 || lanes == 0 || !blocked_conv_channels(g, n)) return true;
  const NodeId reader = g.only_user(g.result(n));
  return is_channels_last(l) && takes_channels_last(g, n, kMostLanes) && reader.valid() && is_layout_op(g.op(reader));
}

// Returns whether the node computes depthwise windows of an image with channels last in vectors of `lanes` channels. It then
// writes channels last if its reader wants them so.
bool keeps_channels_last(const Graph& g, NodeId n, int64_t lanes) {
  if (lanes <= 1 || !takes_channels_last(g, n, lanes)) return false;
  const auto image = layout_in_larger(g, g.operand(n, 0));
  return image && is_channels_last(*image);
}

// Returns whether the kernel of the node can write its result in layout `l`.
bool makes_layout(const Graph& g, NodeId n, const Layout& l, bool channels_last) {
  if (channels_last) return is_channels_last(l);
  const auto row = axes_of_rows(g, n);
  if (writes_parts(g, n)) return l.rows();
  if (has_strided_result(g.op(n))) return can_write_layout(g, n, l);
  return row ? l.rows() && !l.split(*row) : sums_all_channels(g, n) && has_planes(g.module().dims, l);
}

// The layout of a matrix that is row-major when transposed.
Layout column_major(DimTable& dims, std::span<const Dim> shape) {
  std::vector<Dim> turned(shape.begin(), shape.end());
  std::swap(turned.end()[-1], turned.end()[-2]);
  Layout l = row_major(dims, turned);
  std::swap(l.axes.end()[-1], l.axes.end()[-2]);
  return l;
}

// Returns whether the sole consumer is a matmul that transposes the value.
bool is_transposed_left(const Graph& g, ValueId v) {
  const NodeId n = g.only_user(v);
  return n.valid() && layout_rule(g.op(n)) == LayoutRule::Matmul && transposes_left(g, n) && g.operand(n, 0) == v;
}

// The sole Transpose among several readers of the codes of an integer convolution. Invalid if there is none or another one.
NodeId one_turn(const Graph& g, ValueId v) {
  if (!is_integer_conv(g.op(g.def(v))) || g.use_count(v) < 2 || g.use_count(v) > kFewReaders) return {};
  NodeId turn;
  for (const auto use : g.uses(v)) {
    if (g.op(use.user) != OpKind::Transpose) continue;
    if (turn.valid()) return {};
    turn = use.user;
  }
  return turn;
}

// A producer that writes the consumer's layout: `row_major` is the result of the chain of sole consumers, all Reshapes and
// Transposes, beside which others may read the codes of a convolution in that layout; invalid if a matmul reads it as
// column-major.
struct WrittenLayout {
  Layout layout;
  ValueId row_major;
};
std::optional<WrittenLayout> written_as_read(const Graph& g, ValueId v, int64_t lanes) {
  const NodeId maker = g.def(v), turn = one_turn(g, v);
  const bool channels_last = keeps_channels_last(g, maker, lanes);
  const bool can_order = channels_last || axes_of_rows(g, maker) || sums_all_channels(g, maker) || writes_parts(g, maker) ||
                         has_strided_result(g.op(maker));
  if (!can_order || !has_whole_bytes(g, v)) return std::nullopt;
  ValueId last = v, read = v;  // results of the last op that reorders, and of the last op
  for (size_t moves = 0; moves < kMostMoves; ++moves) {
    const NodeId n = read == v && turn.valid() ? turn : g.only_user(read);
    if (!n.valid() || (g.op(n) != OpKind::Reshape && g.op(n) != OpKind::Transpose)) break;
    read = g.result(n);
    if (keeps_row_major(g, n)) continue;
    if (last == v && !channels_last && read_in_place(g, n, lanes)) return std::nullopt;
    last = read;
  }
  if (last == v && channels_last && is_transposed_left(g, read)) {
    auto layout = layout_before(g, v, read, column_major(g.module().dims, g.dims(read)));
    return layout && is_channels_last(*layout) ? std::optional(WrittenLayout{std::move(*layout), {}}) : std::nullopt;
  }
  if (last == v) return std::nullopt;
  auto layout = layout_before(g, v, last);
  size_t readers = kFewReaders;
  if (turn.valid() && !(layout && all_take(g, v, *layout, lanes, kMostMoves, &readers, turn))) return std::nullopt;
  return layout && makes_layout(g, maker, *layout, channels_last) ? std::optional(WrittenLayout{std::move(*layout), last})
                                                                  : std::nullopt;
}

// The same, or the layout of another result of a convolution if the readers of v accept it.
std::optional<WrittenLayout> written_layout(const Graph& g, ValueId v, int64_t lanes) {
  auto own = written_as_read(g, v, lanes);
  const NodeId maker = g.def(v);
  if (own || !is_integer_conv(g.op(maker))) return own;
  for (size_t i = 0; i < g.result_count(maker); ++i) {
    if (g.result(maker, i) == v) continue;
    if (auto other = written_as_read(g, g.result(maker, i), lanes); other && all_accept_layout(g, v, other->layout, lanes))
      return WrittenLayout{std::move(other->layout), {}};
  }
  return std::nullopt;
}

}  // namespace

bool accepts_layout(const Graph& g, Graph::Use use, const Layout& l, int64_t lanes) {
  const OpKind op = g.op(use.user);
  const bool rows = l.rows() && !l.split();
  switch (layout_rule(op)) {
    case LayoutRule::RowMajor: return op == OpKind::ReduceRegion && rows;
    case LayoutRule::View: return false;
    case LayoutRule::Norm: {
      const auto row = axes_of_rows(g, use.user);
      return row && !l.split(*row) && (l.rows() || reads_columns(g, use, lanes));
    }
    case LayoutRule::Matmul:
    case LayoutRule::MatmulResult:
      if (is_residual(op, use.index)) return can_write_layout(g, use.user, l);
      if (op == OpKind::QAttention && use.index == 2) return rows;
      if (op == OpKind::DequantMatMul) return use.index == 0 && lanes > 1 && rows;
      if (layout_rule(op) != LayoutRule::Matmul || use.index > 1) return false;
      if (use.index == 0) return rows || (lanes != 1 && !l.split() && reads_columns_of_left(op));
      return rows || (reads_columns_of_right(op) && has_columns(l));
    case LayoutRule::Conv: return use.index == 0 && reads_image(g, use.user, l, lanes);
    case LayoutRule::Attention: return rows && use.index < 3;
    case LayoutRule::Rope: return rows && use.index == 0;
    case LayoutRule::Concat: return concatenates(g, use.user);
    case LayoutRule::Elementwise:
      if (op == OpKind::ConcatRegion && reduces_rows(g.attrs<ConcatRegionAttrs>(use.user).steps)) return rows;
      if (op == OpKind::ConcatRegion && copies_operand(g, use.user, use.index)) return true;
      if (op == OpKind::Cast && is_narrow(g.attrs<CastAttrs>(use.user).to)) return false;
      return (l.vectors() || (!l.split() && reads_columns(g, use, lanes))) && !view_of(g, use.user);
  }
  return false;
}

bool all_accept_layout(const Graph& g, ValueId v, const Layout& l, int64_t lanes) {
  size_t readers = kFewReaders;
  return all_take(g, v, l, lanes, kMostMoves, &readers);
}

bool can_write_layout(const Graph& g, NodeId n, const Layout& l) {
  const size_t rank = l.axes.size();
  if (rank < 2 || l.split()) return false;
  const auto b = g.dims(g.operand(n, 1));
  const bool by_matrix = transposes_left(g, n) || std::any_of(b.begin(), b.end() - 2, [](Dim d) { return d != Dim(1); });
  const ContiguousDims run = innermost_contiguous_dims(g.module().dims, l, rank - 1);
  const std::optional<DimFactor> row =
      by_matrix ? l.axes[rank - 2].empty() ? std::nullopt : std::optional(l.axes[rank - 2][0]) : run.factor;
  const bool few = !row || (row->size.is_static() && row->size.size() < kFewRows);
  if (!l.rows()) return !few && row->stride == Dim(1);
  return by_matrix || run.begin == 0 || !few;
}

std::optional<Layout> layout_before(const Graph& g, ValueId v, ValueId moved) {
  return layout_before(g, v, moved, row_major(g.module().dims, g.dims(moved)));
}

std::optional<Layout> layout_before(const Graph& g, ValueId v, ValueId moved, Layout l) {
  DimTable& dims = g.module().dims;
  while (moved != v) {
    const NodeId n = g.def(moved);
    moved = g.operand(n, 0);
    const auto from = g.dims(moved);
    if (std::ranges::find(from, Dim(0)) != from.end()) return std::nullopt;
    if (g.op(n) == OpKind::Reshape) {
      auto before = reshaped(dims, l, from);
      if (!before) return std::nullopt;
      l = std::move(*before);
      continue;
    }
    const auto& perm = g.attrs<PermAttrs>(n).perm;
    Layout before{std::vector<std::vector<DimFactor>>(perm.size())};
    for (size_t axis = 0; axis < perm.size(); ++axis) before.axes[static_cast<size_t>(perm[axis])] = std::move(l.axes[axis]);
    l = std::move(before);
  }
  return l;
}

std::optional<Layout> layout_in_larger(const Graph& g, ValueId v, int64_t lanes) {
  NodeId path[kLongestPath];
  size_t moves = 0;
  for (NodeId n = g.def(v); moves < std::size(path) && is_layout_op(g.op(n)); v = g.operand(n, 0), n = g.def(v))
    path[moves++] = n;
  const auto made = written_layout(g, v, lanes);
  std::optional<Layout> l;
  if (made) l = made->layout;
  while (moves > 0) {
    const NodeId n = path[--moves];
    if (made && g.result(n) == made->row_major) l.reset();
    else l = l ? moved(g, n, std::move(*l)) : read_in_place(g, n, lanes);
  }
  return l;
}

namespace {

// `layout`: returns the layout of a value, null if it is row-major.
template <class LayoutOf>
std::optional<View> view_of(const Graph& g, NodeId n, const LayoutOf& layout) {
  const auto whole = [&](bool is_view) { return is_view ? std::optional<View>({g.operand(n, 0), Dim(0)}) : std::nullopt; };
  DimTable& dims = g.module().dims;
  switch (g.op(n)) {
    case OpKind::Reshape: return whole(true);
    case OpKind::Cast: return whole(g.dtype(g.operand(n, 0)) == g.attrs<CastAttrs>(n).to);
    case OpKind::Transpose: return whole(keeps_order(g, n) || layout(g.result(n)) || layout(g.operand(n, 0)));
    case OpKind::Resize: return whole(layout(g.result(n)) != nullptr);
    case OpKind::Expand: return whole(dims.equal(dims.product(g.dims(g.operand(n, 0))), dims.product(g.dims(g.result(n)))));
    case OpKind::Concat: return whole(g.operands(n).size() == 1);
    case OpKind::Narrow:
    case OpKind::Slice: {
      const auto p = part_of(g, n);
      const ValueId x = g.operand(n, 0);
      if (!p || !has_whole_bytes(g, x) || !(keeps_row_major(g, n) || layout(g.result(n)))) return std::nullopt;
      const Layout* of_x = layout(x);
      const Layout l = of_x ? *of_x : row_major(dims, g.dims(x));
      return View{x, dims.mul(offset_of(dims, *p, g.dims(g.result(n))[p->axis], l), Dim(bits(g.dtype(x)) / 8))};
    }
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<View> view_of(const Graph& g, NodeId n) {
  std::optional<Layout> last;
  return view_of(g, n, [&](ValueId v) -> const Layout* { return (last = layout_in_larger(g, v)) ? &*last : nullptr; });
}

namespace {

// layout_in_larger of the values of a graph in their order: each result of a layout op continues the path of its operand.
class LayoutPaths {
 public:
  LayoutPaths(const Graph& g, int64_t lanes) : g_(g), lanes_(lanes), paths_(g.value_capacity()) {}

  // `of_operand`: the layout of the first operand of the node, null if it is row-major.
  std::optional<Layout> next(NodeId n, ValueId v, const Layout* of_operand) {
    Path& path = paths_[v.raw];
    if (!is_layout_op(g_.op(n))) {
      auto made = written_layout(g_, v, lanes_);
      if (!made) return std::nullopt;
      path.row_major = made->row_major;
      return std::move(made->layout);
    }
    path = paths_[g_.operand(n, 0).raw];
    if (++path.moves > kLongestPath) return layout_in_larger(g_, v, lanes_);
    if (v == path.row_major) return std::nullopt;
    return of_operand ? moved(g_, n, *of_operand) : read_in_place(g_, n, lanes_);
  }

 private:
  struct Path {
    ValueId row_major;  // of WrittenLayout
    size_t moves = 0;
  };
  const Graph& g_;
  const int64_t lanes_;
  std::vector<Path> paths_;  // by value: from the first operand of its chain of layout ops
};

}  // namespace

GraphLayouts assign_layouts(const Graph& g, int64_t lanes) {
  GraphLayouts out(g);
  LayoutPaths paths(g, lanes);
  for (NodeId n : g.nodes()) {
    for (size_t i = 0; i < g.result_count(n); ++i) {
      const ValueId v = g.result(n, i);
      out.root[v.raw] = v;
      const Layout* const of_operand = is_layout_op(g.op(n)) ? out.of(g.operand(n, 0)) : nullptr;
      if (auto layout = paths.next(n, v, of_operand)) out.set(v, std::move(*layout));
    }
    if (const auto view = view_of(g, n, [&](ValueId v) { return out.of(v); })) {
      const ValueId v = g.result(n);
      out.root[v.raw] = out.root[view->of.raw];
      out.offset[v.raw] = g.module().dims.add(out.offset[view->of.raw], view->byte_offset);
    }
  }
  if (lanes > 1) assign_channel_blocks(g, lanes, &out);
  return out;
}

}  // namespace rlxc
