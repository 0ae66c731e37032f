// Raises x*cos + rotated(x)*sin to Rope: rotated halves concat(-x2, x1), or rotated adjacent pairs. A Transpose of heads before
// rows moves behind the Rope, where the attention absorbs it.
#include "passes/passes.h"
#include "passes/provenance.h"
#include "passes/recognise/axis_view.h"

namespace rlxc {
namespace {

using namespace match;
using namespace recognise;

// `len` elements of the last axis of root, from `start` in steps of `step`. The other axes equal those of root, in any shape.
struct Part {
  ValueId root;
  int64_t start = 0, len = 0, step = 1;

  bool operator==(const Part&) const = default;
  Part inner(int64_t first, int64_t count, int64_t by) const { return {root, start + step * first, count, step * by}; }
};

// Walks up through slices of the last axis and Reshapes that keep it.
Part part_of(const Graph& g, ValueId v) {
  DimTable& t = g.module().dims;
  Part p{v, 0, size_at(g, v, -1).value_or(0), 1};
  for (int i = 0; i < 8; ++i) {
    const NodeId n = g.def(p.root);
    const bool narrow = g.op(n) == OpKind::Narrow;
    if (narrow || g.op(n) == OpKind::Slice) {
      const int64_t axis = narrow ? g.attrs<NarrowAttrs>(n).axis : g.attrs<SliceAttrs>(n).axis;
      const auto start = t.constant_value(narrow ? g.attrs<NarrowAttrs>(n).start : g.attrs<SliceAttrs>(n).start);
      if (axis != g.rank(p.root) - 1 || !start) break;
      p = Part{g.operand(n, 0), *start, 0, narrow ? 1 : g.attrs<SliceAttrs>(n).step}.inner(p.start, p.len, p.step);
    } else if (g.op(n) == OpKind::Reshape && g.rank(p.root) > 0 && g.rank(g.operand(n, 0)) > 0 &&
               g.dims(p.root).back() == g.dims(g.operand(n, 0)).back()) {
      p.root = g.operand(n, 0);
    } else {
      break;
    }
  }
  return p;
}

// The union of two parts: concatenated, or interleaved (step 2).
std::optional<Part> joined(const Part& a, const Part& b, int64_t step) {
  if (a.root != b.root || a.len != b.len || a.len == 0 || a.step != step || b.step != step) return std::nullopt;
  if (b.start != a.start + (step == 1 ? a.len : 1)) return std::nullopt;
  return Part{a.root, a.start, 2 * a.len, 1};
}

// Matches concat(-x2, x1) of the halves of x; returns x.
std::optional<Part> rotated_halves(const Graph& g, ValueId v) {
  const NodeId concat = defining_op(g, v, OpKind::Concat);
  if (!concat.valid() || g.operands(concat).size() != 2 || g.attrs<AxisAttrs>(concat).axis != g.rank(v) - 1) return std::nullopt;
  const NodeId neg = defining_op(g, g.operand(concat, 0), OpKind::Neg);
  return neg.valid() ? joined(part_of(g, g.operand(concat, 1)), part_of(g, g.operand(neg, 0)), 1) : std::nullopt;
}

// The operand of a Reshape that appends an axis of dim 1.
ValueId column(const Graph& g, ValueId c) {
  const NodeId n = defining_op(g, c, OpKind::Reshape);
  if (!n.valid()) return {};
  const auto from = g.dims(g.operand(n, 0)), to = g.dims(c);
  return from.size() + 1 == to.size() && std::equal(from.begin(), from.end(), to.begin()) ? g.operand(n, 0) : ValueId();
}

// Matches stack(-x[1::2], x[0::2]) flattened; returns x.
std::optional<Part> rotated_pairs(const Graph& g, ValueId v) {
  const NodeId flat = defining_op(g, v, OpKind::Reshape);
  const NodeId concat = flat.valid() ? defining_op(g, g.operand(flat, 0), OpKind::Concat) : NodeId();
  if (!concat.valid() || g.operands(concat).size() != 2) return std::nullopt;
  const ValueId stacked = g.result(concat);
  if (g.attrs<AxisAttrs>(concat).axis != g.rank(stacked) - 1 || size_at(g, stacked, -1) != 2 || g.rank(stacked) != g.rank(v) + 1)
    return std::nullopt;
  const ValueId a = column(g, g.operand(concat, 0)), b = column(g, g.operand(concat, 1));
  const NodeId neg = defining_op(g, a, OpKind::Neg);
  return neg.valid() && b.valid() ? joined(part_of(g, b), part_of(g, g.operand(neg, 0)), 2) : std::nullopt;
}

struct Match {
  Part x;  // with the shape of y
  ValueId cos, sin, y;
  RopeStyle style = RopeStyle::NeoX;
  std::vector<NodeId> nodes;
};

// Matches x*cos + rotated(x)*sin.
std::optional<Match> match_rotated_sum(const Graph& g, NodeId add) {
  const NodeId left = defining_op(g, g.operand(add, 0), OpKind::Mul), right = defining_op(g, g.operand(add, 1), OpKind::Mul);
  if (!left.valid() || !right.valid()) return std::nullopt;
  for (const auto& [plain, turned] : {std::pair(left, right), std::pair(right, left)})
    for (size_t i = 0; i < 2; ++i) {
      const ValueId r = g.operand(turned, i);
      auto x = rotated_halves(g, r);
      const bool pairs = !x;
      if (pairs) x = rotated_pairs(g, r);
      for (size_t k = 0; x && k < 2; ++k) {
        const ValueId straight = g.operand(plain, k);
        if (part_of(g, straight) != *x || !same_dims(g, straight, r)) continue;
        return Match{*x,
                     g.operand(plain, 1 - k),
                     g.operand(turned, 1 - i),
                     g.result(add),
                     pairs ? RopeStyle::GptJ : RopeStyle::NeoX,
                     {plain, g.def(r), turned, add}};
      }
    }
  return std::nullopt;
}

// Matches the elements of x at position 0 (or 1) of each adjacent pair.
Part part_of_pairs(const Graph& g, ValueId v) {
  const NodeId squeeze = defining_op(g, v, OpKind::Reshape);
  const Part one = squeeze.valid() ? part_of(g, g.operand(squeeze, 0)) : Part();
  const NodeId split = one.len == 1 && one.step == 1 ? defining_op(g, one.root, OpKind::Reshape) : NodeId();
  if (!split.valid() || size_at(g, one.root, -1) != 2) return part_of(g, v);
  const ValueId x = g.operand(split, 0);
  const auto half = size_at(g, v, -1);
  if (!half || size_at(g, x, -1) != 2 * *half || g.rank(one.root) != g.rank(x) + 1 || g.rank(v) != g.rank(x))
    return part_of(g, v);
  return part_of(g, x).inner(one.start, *half, 2);
}

// Matches first*c - second*s and second*c + first*s, concatenated or interleaved.
std::optional<Match> match_parts(const Graph& g, NodeId concat) {
  if (g.operands(concat).size() != 2 || g.attrs<AxisAttrs>(concat).axis != g.rank(g.result(concat)) - 1) return std::nullopt;
  ValueId a = g.operand(concat, 0), b = g.operand(concat, 1), y = g.result(concat);
  const bool pairs = !defining_op(g, a, OpKind::Sub).valid();
  if (pairs) {
    a = column(g, a), b = column(g, b);
    const NodeId flat = g.only_user(y);
    if (!flat.valid() || g.op(flat) != OpKind::Reshape || size_at(g, y, -1) != 2 || g.rank(g.result(flat)) != g.rank(y) - 1)
      return std::nullopt;
    y = g.result(flat);
  }
  const NodeId sub = defining_op(g, a, OpKind::Sub), add = defining_op(g, b, OpKind::Add);
  if (!sub.valid() || !add.valid()) return std::nullopt;
  const NodeId fc = defining_op(g, g.operand(sub, 0), OpKind::Mul), ss = defining_op(g, g.operand(sub, 1), OpKind::Mul);
  const NodeId p = defining_op(g, g.operand(add, 0), OpKind::Mul), q = defining_op(g, g.operand(add, 1), OpKind::Mul);
  if (!fc.valid() || !ss.valid() || !p.valid() || !q.valid()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i)
    for (size_t k = 0; k < 2; ++k) {
      const ValueId first = g.operand(fc, i), cos = g.operand(fc, 1 - i), second = g.operand(ss, k), sin = g.operand(ss, 1 - k);
      if (!same_dims(g, first, a) || !same_dims(g, second, b)) continue;
      const auto x =
          pairs ? joined(part_of_pairs(g, first), part_of_pairs(g, second), 2) : joined(part_of(g, first), part_of(g, second), 1);
      if (!x || size_at(g, y, -1) != x->len) continue;
      const bool straight = other(g, p, second) == cos && other(g, q, first) == sin,
                 crossed = other(g, q, second) == cos && other(g, p, first) == sin;
      if (straight || crossed)
        return Match{*x, cos, sin, y, pairs ? RopeStyle::GptJ : RopeStyle::NeoX, {fc, ss, sub, p, q, add, concat}};
    }
  return std::nullopt;
}

// Extends a match that rotates only the first elements of each head to the whole head.
void include_rest(const Graph& g, Match& m) {
  const NodeId concat = g.only_user(m.y);
  if (!concat.valid() || g.op(concat) != OpKind::Concat || g.operands(concat).size() != 2 || g.operand(concat, 0) != m.y) return;
  const Part rest = part_of(g, g.operand(concat, 1));
  if (rest.root != m.x.root || rest.start != m.x.start + m.x.len || rest.step != 1) return;
  if (g.attrs<AxisAttrs>(concat).axis != g.rank(m.y) - 1) return;
  m.x.len += rest.len;
  m.y = g.result(concat);
  m.nodes.push_back(concat);
}

// The value of a part, with these dims.
ValueId value_of(Builder& b, const Part& p, std::span<const Dim> dims) {
  const Graph& g = b.graph();
  const bool whole = p.start == 0 && size_at(g, p.root, -1) == p.len;
  const ValueId cut = whole ? p.root : b.narrow(p.root, g.rank(p.root) - 1, Dim(p.start), Dim(p.len));
  return b.reshape(cut, {dims.begin(), dims.end()});
}

// The rows axis of x (the only axis besides the last that the tables cover), and the tables' dims as [batch or 1, rows, width].
struct Tables {
  int row_axis = 0;
  std::vector<Dim> dims;
};
std::optional<Tables> tables(const Graph& g, const Match& m, int64_t rotated) {
  const auto x = g.dims(m.y), c = g.dims(m.cos);
  if (x.size() != 4 || !same_type(g, m.cos, m.sin) || c.size() > 4 || c.size() < 2) return std::nullopt;
  if (c.back() != Dim(rotated) && c.back() != Dim(rotated / 2)) return std::nullopt;
  std::vector<Dim> d(4 - c.size(), Dim(1));
  d.insert(d.end(), c.begin(), c.end());
  if (d[0] != Dim(1) && d[0] != x[0]) return std::nullopt;
  for (int axis : {2, 1}) {
    const auto row = static_cast<size_t>(axis), head = 3 - row;
    if (d[head] == Dim(1) && d[row] == x[row] && d[row] != Dim(1)) return Tables{axis, {d[0], d[row], d[3]}};
  }
  if (d[1] == Dim(1) && d[2] == Dim(1) && (x[2] == Dim(1) || x[1] == Dim(1)))
    return Tables{x[2] == Dim(1) ? 2 : 1, {d[0], Dim(1), d[3]}};
  return std::nullopt;
}

// One half of a table computed elementwise from concat(a, a); otherwise the table.
ValueId one_half(Builder& b, ValueId table) {
  const Graph& g = b.graph();
  std::vector<NodeId> steps;  // from the table upwards
  NodeId n = g.def(table);
  for (int i = 0; i < 6 && g.op(n) != OpKind::Concat; ++i, n = g.def(g.operand(n, 0))) {
    const auto ins = g.operands(n);
    const bool moves = g.op(n) == OpKind::Reshape && g.rank(ins[0]) > 0 && g.rank(g.result(n)) > 0 &&
                       g.dims(ins[0]).back() == g.dims(g.result(n)).back();
    const bool scales = g.op(n) == OpKind::Mul && scalar(g, ins[1]) && g.rank(ins[1]) == 0;
    if (!moves && !scales && !(has_trait(g.op(n), kElementwise) && ins.size() == 1)) return table;
    steps.push_back(n);
  }
  if (g.op(n) != OpKind::Concat || g.operands(n).size() != 2 || g.operand(n, 0) != g.operand(n, 1) ||
      g.attrs<AxisAttrs>(n).axis != g.rank(g.result(n)) - 1)
    return table;
  ValueId half = g.operand(n, 0);
  const Dim width = g.dims(half).back();
  for (size_t i = steps.size(); i-- > 0;) {
    const NodeId step = steps[i];
    if (g.op(step) == OpKind::Reshape) {
      std::vector<Dim> to(g.dims(g.result(step)).begin(), g.dims(g.result(step)).end());
      to.back() = width;
      half = b.reshape(half, to);
    } else if (g.op(step) == OpKind::Mul) {
      half = b.mul(half, g.operand(step, 1));
    } else {
      half = b.create(g.op(step), {half}, g.module().attrs[g.attr_id(step)]);
    }
    merge_origins(b.graph(), g.def(half), std::span(&step, 1));
  }
  return half;
}

// Returns whether the leading dims of x and y have equal products, so the tables did not broadcast x.
bool same_elements(const Graph& g, const Match& m) {
  DimTable& t = g.module().dims;
  const auto leading = [&](ValueId v) {
    Dim n(1);
    for (Dim d : g.dims(v).first(g.dims(v).size() - 1)) n = t.mul(n, d);
    return n;
  };
  return t.equal(leading(m.x.root), leading(m.y));
}

bool make_rope(Graph& g, Match m, PassContext& ctx) {
  const auto decline = [&](std::string_view reason, std::string detail) {
    ctx.decisions.push_back(declined(g, "rope", m.nodes.back(), reason, std::move(detail)));
    return false;
  };
  const int64_t rotated = m.x.len;
  if (!is_float(g, m.y) || g.dtype(m.x.root) != g.dtype(m.y) || size_at(g, m.y, -1) != rotated || !same_elements(g, m))
    return decline("broadcast", "the tables are larger than x");
  if (rotated % 2 != 0) return decline("head_dim", "the head size is not known");
  include_rest(g, m);
  const ValueId y = m.y;
  const auto t = tables(g, m, rotated);
  if (!t) return decline("table_shape", "the tables do not run along the rows and elements of x");
  const auto x = g.dims(y);
  const int64_t width = m.x.len;
  const bool heads_first = t->row_axis == 2;
  const HeadSizes sizes{x[0], x[heads_first ? 1 : 2], x[heads_first ? 2 : 1], x[3]};
  const Role roles[] = {Role::Batch, heads_first ? Role::Head : Role::Row, heads_first ? Role::Row : Role::Head, Role::Element};
  // Reads the value before heads were split and transposed, if there is one.
  const HeadSource* packed = nullptr;
  Builder b(g, nullptr, g.def(y));
  const ValueId whole = value_of(b, m.x, x);
  const auto sources = head_sources(g, whole, roles, sizes, false);
  for (const HeadSource& s : sources)
    if ((s.orders & kOrderBSHD) && g.module().dims.equal(s.heads, sizes.heads)) packed = &s;
  const RopeAttrs a{width, rotated, m.style,
                    packed        ? packed_layout(g, {packed})
                    : heads_first ? AttentionLayout::BHSD
                                  : AttentionLayout::BSHD};

  Decision d = fused(g, "rope", m.nodes.back(), m.nodes, 8 * bytes(g, y));
  const auto table = [&](ValueId v) {
    if (m.style == RopeStyle::NeoX && g.dims(v).back() == Dim(rotated)) v = one_half(b, v);
    return b.reshape(v, {t->dims[0], t->dims[1], g.dims(v).back()});
  };
  const ValueId cos = table(m.cos), sin = table(m.sin);
  ValueId r = b.create(OpKind::Rope, {packed ? as_layout(b, *packed, sizes, a.layout) : whole, cos, sin}, a);
  if (r.valid()) merge_origins(g, g.def(r), m.nodes);
  if (packed) r = b.reshape(r, {sizes.batch, sizes.rows, sizes.heads, sizes.width});
  if (packed && heads_first) r = b.transpose(r, {0, 2, 1, 3});
  if (!r.valid() || !same_dims(g, r, y)) return false;
  ctx.decisions.push_back(std::move(d));
  replace(g, y, r);
  return true;
}

}  // namespace

PassResult recognise_rope(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::Add && g.op(n) != OpKind::Concat) continue;
      if (const auto match = g.op(n) == OpKind::Add ? match_rotated_sum(g, n) : match_parts(g, n))
        found += ctx.rewrite([&] { return make_rope(g, *match, ctx); });
    }
  });
  return {found > 0, {{"rope", found}}};
}

}  // namespace rlxc
