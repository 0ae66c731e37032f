#include "passes/recognise/recognise_rope.h"

#include "passes/provenance.h"
#include "passes/recognise/axis_view.h"

namespace rlxc {
namespace {

using namespace match;
using namespace recognise;

struct Part {  // len elements of the last axis of x from start in steps
  ValueId x;
  int64_t start = 0, len = 0, step = 1;
};

std::optional<Part> part_of_last(const Graph& g, ValueId v) {
  const NodeId n = g.def(v);
  DimTable& t = g.module().dims;
  const bool narrow = g.op(n) == OpKind::Narrow;
  if (!narrow && g.op(n) != OpKind::Slice) return std::nullopt;
  const int64_t axis = narrow ? g.attrs<NarrowAttrs>(n).axis : g.attrs<SliceAttrs>(n).axis;
  const auto start = t.constant_value(narrow ? g.attrs<NarrowAttrs>(n).start : g.attrs<SliceAttrs>(n).start);
  const auto len = t.constant_value(narrow ? g.attrs<NarrowAttrs>(n).len : g.attrs<SliceAttrs>(n).len);
  if (axis != g.rank(v) - 1 || !start || !len) return std::nullopt;
  return Part{g.operand(n, 0), *start, *len, narrow ? 1 : g.attrs<SliceAttrs>(n).step};
}

// concat(-x2, x1) of the halves of x: x.
ValueId rotated_halves(const Graph& g, ValueId v) {
  const NodeId concat = made_by(g, v, OpKind::Concat);
  if (!concat.valid() || g.operands(concat).size() != 2 || g.attrs<AxisAttrs>(concat).axis != g.rank(v) - 1) return {};
  const NodeId neg = made_by(g, g.operand(concat, 0), OpKind::Neg);
  if (!neg.valid()) return {};
  const auto second = part_of_last(g, g.operand(neg, 0)), first = part_of_last(g, g.operand(concat, 1));
  if (!first || !second || first->x != second->x || first->step != 1 || second->step != 1) return {};
  const auto width = size_at(g, first->x, -1);
  if (first->start != 0 || second->start != first->len || second->len != first->len || width != 2 * first->len) return {};
  return first->x;
}

// What a Reshape appends an axis of size 1 to.
ValueId column(const Graph& g, ValueId c) {
  const NodeId n = made_by(g, c, OpKind::Reshape);
  if (!n.valid()) return {};
  const auto from = g.dims(g.operand(n, 0)), to = g.dims(c);
  return from.size() + 1 == to.size() && std::equal(from.begin(), from.end(), to.begin()) ? g.operand(n, 0) : ValueId();
}

// stack(-x[1::2], x[0::2]) flattened: x.
ValueId rotated_pairs(const Graph& g, ValueId v) {
  const NodeId flat = made_by(g, v, OpKind::Reshape);
  const NodeId concat = flat.valid() ? made_by(g, g.operand(flat, 0), OpKind::Concat) : NodeId();
  if (!concat.valid() || g.operands(concat).size() != 2) return {};
  const ValueId stacked = g.result(concat);
  if (g.attrs<AxisAttrs>(concat).axis != g.rank(stacked) - 1 || size_at(g, stacked, -1) != 2 || g.rank(stacked) != g.rank(v) + 1)
    return {};
  const ValueId a = column(g, g.operand(concat, 0)), b = column(g, g.operand(concat, 1));
  const NodeId neg = made_by(g, a, OpKind::Neg);
  if (!neg.valid() || !b.valid()) return {};
  const auto odd = part_of_last(g, g.operand(neg, 0)), even = part_of_last(g, b);
  if (!odd || !even || odd->x != even->x || odd->step != 2 || even->step != 2 || even->start != 0 || odd->start != 1) return {};
  if (odd->len != even->len || size_at(g, odd->x, -1) != 2 * odd->len || !same_dims(g, odd->x, v)) return {};
  return odd->x;
}

struct Match {
  ValueId x, cos, sin, y;
  RopeStyle style = RopeStyle::NeoX;
  std::vector<NodeId> nodes;
};

// x*cos + rotated(x)*sin.
std::optional<Match> match_rotated_sum(const Graph& g, NodeId add) {
  const NodeId left = made_by(g, g.operand(add, 0), OpKind::Mul), right = made_by(g, g.operand(add, 1), OpKind::Mul);
  if (!left.valid() || !right.valid()) return std::nullopt;
  for (const auto& [plain, turned] : {std::pair(left, right), std::pair(right, left)})
    for (size_t i = 0; i < 2; ++i) {
      const ValueId r = g.operand(turned, i);
      ValueId x = rotated_halves(g, r);
      const bool pairs = !x.valid();
      if (pairs) x = rotated_pairs(g, r);
      if (!x.valid()) continue;
      const ValueId cos = other(g, plain, x);
      if (!cos.valid()) continue;
      return Match{x,
                   cos,
                   g.operand(turned, 1 - i),
                   g.result(add),
                   pairs ? RopeStyle::GptJ : RopeStyle::NeoX,
                   {plain, g.def(r), turned, add}};
    }
  return std::nullopt;
}

// The elements of x that are at 0 (or 1) of each adjacent pair.
std::optional<Part> part_of_pairs(const Graph& g, ValueId v) {
  if (const auto p = part_of_last(g, v); p && p->step == 2) return p;
  const NodeId squeeze = made_by(g, v, OpKind::Reshape);
  const auto p = squeeze.valid() ? part_of_last(g, g.operand(squeeze, 0)) : std::nullopt;
  const NodeId split = p ? made_by(g, p->x, OpKind::Reshape) : NodeId();
  if (!split.valid() || p->len != 1 || size_at(g, p->x, -1) != 2) return std::nullopt;
  const ValueId x = g.operand(split, 0);
  const auto half = size_at(g, v, -1);
  if (!half || size_at(g, x, -1) != 2 * *half || g.rank(p->x) != g.rank(x) + 1 || g.rank(v) != g.rank(x)) return std::nullopt;
  return Part{x, p->start, *half, 2};
}

// first*c - second*s and second*c + first*s, put side by side or in turns.
std::optional<Match> match_parts(const Graph& g, NodeId concat) {
  if (g.operands(concat).size() != 2 || g.attrs<AxisAttrs>(concat).axis != g.rank(g.result(concat)) - 1) return std::nullopt;
  ValueId a = g.operand(concat, 0), b = g.operand(concat, 1), y = g.result(concat);
  const bool pairs = !made_by(g, a, OpKind::Sub).valid();
  if (pairs) {
    a = column(g, a), b = column(g, b);
    const NodeId flat = g.only_user(y);
    if (!flat.valid() || g.op(flat) != OpKind::Reshape || size_at(g, y, -1) != 2 || g.rank(g.result(flat)) != g.rank(y) - 1)
      return std::nullopt;
    y = g.result(flat);
  }
  const NodeId sub = made_by(g, a, OpKind::Sub), add = made_by(g, b, OpKind::Add);
  if (!sub.valid() || !add.valid()) return std::nullopt;
  const NodeId fc = made_by(g, g.operand(sub, 0), OpKind::Mul), ss = made_by(g, g.operand(sub, 1), OpKind::Mul);
  const NodeId p = made_by(g, g.operand(add, 0), OpKind::Mul), q = made_by(g, g.operand(add, 1), OpKind::Mul);
  if (!fc.valid() || !ss.valid() || !p.valid() || !q.valid()) return std::nullopt;
  for (size_t i = 0; i < 2; ++i)
    for (size_t k = 0; k < 2; ++k) {
      const ValueId first = g.operand(fc, i), cos = g.operand(fc, 1 - i), second = g.operand(ss, k), sin = g.operand(ss, 1 - k);
      const auto u = pairs ? part_of_pairs(g, first) : part_of_last(g, first),
                 v = pairs ? part_of_pairs(g, second) : part_of_last(g, second);
      if (!u || !v || u->x != v->x || u->len != v->len || u->step != v->step || u->step != (pairs ? 2 : 1) || u->start != 0)
        continue;
      if (v->start != (pairs ? 1 : u->len) || size_at(g, u->x, -1) != 2 * u->len || !same_dims(g, u->x, y)) continue;
      const bool straight = other(g, p, second) == cos && other(g, q, first) == sin,
                 crossed = other(g, q, second) == cos && other(g, p, first) == sin;
      if (straight || crossed)
        return Match{u->x, cos, sin, y, pairs ? RopeStyle::GptJ : RopeStyle::NeoX, {fc, ss, sub, p, q, add, concat}};
    }
  return std::nullopt;
}

// Where only the first elements of each head are turned: the head in full, in and out.
void include_rest(const Graph& g, Match& m) {
  const auto part = part_of_last(g, m.x);
  const NodeId concat = g.only_user(m.y);
  if (!part || part->start != 0 || part->step != 1 || !concat.valid() || g.op(concat) != OpKind::Concat ||
      g.operands(concat).size() != 2)
    return;
  const auto rest = part_of_last(g, g.operand(concat, 1));
  if (!rest || rest->x != part->x || rest->start != part->len || rest->step != 1 || g.operand(concat, 0) != m.y) return;
  if (!same_type(g, part->x, g.result(concat)) || size_at(g, part->x, -1) != part->len + rest->len) return;
  m.x = part->x;
  m.y = g.result(concat);
  m.nodes.push_back(concat);
}

// The rows axis of x (from the tables: the only axis besides the last that they cover), and the tables as [batch or 1, rows,
// width].
struct Tables {
  int row_axis = 0;
  std::vector<Dim> dims;
};
std::optional<Tables> tables(const Graph& g, const Match& m, int64_t rotated) {
  const auto x = g.dims(m.x), c = g.dims(m.cos);
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

bool rewrite(Graph& g, Match m, PassContext& ctx) {
  const auto decline = [&](std::string_view reason, std::string detail) {
    ctx.decisions.push_back(declined(g, "rope", m.nodes.back(), reason, std::move(detail)));
    return false;
  };
  const auto rotated = size_at(g, m.x, -1);
  if (!is_float(g, m.y) || !same_type(g, m.x, m.y)) return decline("broadcast", "the tables are larger than x");
  if (!rotated || *rotated % 2 != 0) return decline("head_dim", "the head size is not known");
  include_rest(g, m);
  const ValueId y = m.y;
  const auto t = tables(g, m, *rotated);
  if (!t) return decline("table_shape", "the tables do not run along the rows and elements of x");
  const auto x = g.dims(m.x);
  const auto width = g.module().dims.constant_value(x[3]);
  if (!width) return decline("head_dim", "the head size is not known");
  const bool heads_first = t->row_axis == 2;
  const HeadSizes sizes{x[0], x[heads_first ? 1 : 2], x[heads_first ? 2 : 1], x[3]};
  const Role roles[] = {Role::Batch, heads_first ? Role::Head : Role::Row, heads_first ? Role::Row : Role::Head, Role::Element};
  // Read the value before heads were split and moved, if there is one.
  const HeadSource* packed = nullptr;
  const auto sources = head_sources(g, m.x, roles, sizes, false);
  for (const HeadSource& s : sources)
    if ((s.orders & kOrderBSHD) && g.module().dims.equal(s.heads, sizes.heads)) packed = &s;
  RopeAttrs a{*width, *rotated, m.style,
              packed        ? AttentionLayout::Packed
              : heads_first ? AttentionLayout::BHSD
                            : AttentionLayout::BSHD};

  Decision d = fused(g, "rope", m.nodes.back(), m.nodes, 8 * bytes(g, y));
  Builder b(g, nullptr, g.def(y));
  const ValueId cos = b.reshape(m.cos, t->dims), sin = b.reshape(m.sin, t->dims);
  ValueId r = b.create(OpKind::Rope, {packed ? as_layout(b, *packed, sizes, AttentionLayout::Packed) : m.x, cos, sin}, a);
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
        found += ctx.rewrite([&] { return rewrite(g, *match, ctx); });
    }
  });
  return {found > 0, {{"rope", found}}};
}

}  // namespace rlxc
