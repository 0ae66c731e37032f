#include "passes/recognise/expert_dispatch.h"

#include <algorithm>

#include "passes/match.h"

namespace rlxc {

using namespace match;

namespace {

constexpr int kMostIndexSteps = 12;  // limit on nodes from a use of an index to NonZero
constexpr size_t kMostColumns = 4;   // limit on columns of a concatenated index; two are useful

// The index of a row sent to an expert: token * t + choice * c.
struct RowIndex {
  int64_t token = 0, choice = 0;
  bool operator==(const RowIndex&) const = default;
};
using Columns = std::vector<RowIndex>;  // [rows], [rows, columns] or [columns, rows]

constexpr RowIndex kToken{1, 0}, kChoice{0, 1};

// The expert that a mask selects, and the meaning of the mask's coordinates.
struct ExpertMask {
  Routing routing;
  int64_t expert = 0;
  Columns coordinates;
};

// `v` as one slice of `from` at position `at` of `axis`.
struct Pick {
  ValueId from;
  size_t axis = 0;
  int64_t at = 0;
};
std::optional<Pick> pick(const Graph& g, ValueId v) {
  NodeId n = g.def(v);
  if (g.op(n) == OpKind::Gather) {
    const auto at = scalar(g, g.operand(n, 1));
    if (!at || g.rank(g.operand(n, 1)) != 0) return std::nullopt;
    return Pick{g.operand(n, 0), static_cast<size_t>(g.attrs<AxisAttrs>(n).axis), static_cast<int64_t>(*at)};
  }
  if (g.op(n) != OpKind::Reshape) return std::nullopt;
  n = defining_op(g, g.operand(n, 0), OpKind::Narrow);
  if (!n.valid()) return std::nullopt;
  const auto& a = g.attrs<NarrowAttrs>(n);
  std::vector<Dim> left(g.dims(g.result(n)).begin(), g.dims(g.result(n)).end());
  left.erase(left.begin() + a.axis);
  if (a.len != Dim(1) || !a.start.is_static() || !std::ranges::equal(left, g.dims(v))) return std::nullopt;
  return Pick{g.operand(n, 0), static_cast<size_t>(a.axis), a.start.size()};
}

// Skips casts and comparisons with 0 (x > 0, x != 0) and returns x.
ValueId compared_value(const Graph& g, ValueId v) {
  for (int steps = 0; steps < kMostIndexSteps; ++steps) {
    const NodeId n = g.def(v);
    const bool negated = g.op(n) == OpKind::Not && g.op(g.def(g.operand(n, 0))) == OpKind::Eq;
    const NodeId compares = negated ? g.def(g.operand(n, 0)) : n;
    if (g.op(n) == OpKind::Cast) v = g.operand(n, 0);
    else if (g.op(n) == OpKind::Gt && is_scalar(g, g.operand(n, 1), 0)) v = g.operand(n, 0);
    else if ((negated || g.op(n) == OpKind::Ne) && is_scalar(g, g.operand(compares, 1), 0)) v = g.operand(compares, 0);
    else break;
  }
  return v;
}

std::optional<ExpertMask> mask_of(const Graph& g, ValueId v) {
  ExpertMask m;
  v = compared_value(g, v);
  std::vector<int64_t> axes{0, 1};  // axes of [tokens, k], in the order of the mask
  if (const NodeId t = defining_op(g, v, OpKind::Transpose); t.valid() && g.rank(v) == 2) {
    axes = {1, 0};
    v = compared_value(g, g.operand(t, 0));
  }
  bool any = false;  // reduced over the choices of a token
  if (const NodeId r = defining_op(g, v, OpKind::Reduce); r.valid() && axes[0] == 0) {
    const auto& a = g.attrs<ReduceAttrs>(r);
    any = (a.op == ReduceOp::Sum || a.op == ReduceOp::Max) && a.axes == std::vector<int64_t>{1};
    if (any) {
      v = compared_value(g, g.operand(r, 0));
      axes.pop_back();
    }
  }
  if (const auto one = is_expert(g, v)) {
    m.expert = one->expert;
    m.routing = one->routing;
  } else {
    const auto slice = pick(g, v);
    if (!slice) return std::nullopt;
    std::vector<int64_t> order{0, 1, 2};
    ValueId all = slice->from;
    if (const NodeId t = defining_op(g, all, OpKind::Transpose); t.valid()) {
      order = g.attrs<PermAttrs>(t).perm;
      all = g.operand(t, 0);
    }
    const auto hot = one_hot_of(g, all);
    if (any || !hot || order.size() != 3 || order[slice->axis] != 2 || axes[0] != 0) return std::nullopt;
    order.erase(order.begin() + static_cast<int64_t>(slice->axis));
    axes = order;
    m.expert = slice->at;
    m.routing = *hot;
  }
  for (int64_t axis : axes) m.coordinates.push_back(axis == 0 ? kToken : kChoice);
  return chosen_of(g, m.routing.who) == m.routing.experts ? std::optional(m) : std::nullopt;
}

// The indices in `v`, as functions of the result of `found` (NonZero), which has `rows` columns.
std::optional<Columns> columns_of(const Graph& g, ValueId v, NodeId found, const Columns& coordinates,
                                  int steps = kMostIndexSteps) {
  const NodeId n = g.def(v);
  if (n == found) return coordinates;
  if (steps == 0 || g.operands(n).empty()) return std::nullopt;
  const Dim rows = g.dims(g.result(found))[1];
  const ValueId x = g.operand(n, 0);
  const auto of = [&](ValueId o) { return columns_of(g, o, found, coordinates, steps - 1); };
  const auto part = [&](int64_t axis, int64_t start, int64_t len) -> std::optional<Columns> {
    const auto c = of(x);
    const auto size = size_at(g, x, static_cast<int>(axis));
    if (!c || !size || *size != static_cast<int64_t>(c->size()) || start < 0 || start + len > *size) return std::nullopt;
    return Columns(c->begin() + start, c->begin() + start + len);
  };
  switch (g.op(n)) {
    case OpKind::Cast:
    case OpKind::Transpose: return of(x);
    case OpKind::Reshape:
    case OpKind::Expand: {
      const auto c = of(x);
      return c && c->size() == 1 ? c : std::nullopt;
    }
    case OpKind::Narrow: {
      const auto& a = g.attrs<NarrowAttrs>(n);
      return a.start.is_static() && a.len.is_static() ? part(a.axis, a.start.size(), a.len.size()) : std::nullopt;
    }
    case OpKind::Gather: {
      const auto at = scalar(g, g.operand(n, 1));
      return at ? part(g.attrs<AxisAttrs>(n).axis, static_cast<int64_t>(*at), 1) : std::nullopt;
    }
    case OpKind::Mul: {
      for (size_t i = 0; i < 2; ++i) {
        const auto factor = scalar(g, g.operand(n, i));
        auto c = factor ? of(g.operand(n, 1 - i)) : std::nullopt;
        if (!c || c->size() != 1) continue;
        const auto by = static_cast<int64_t>(*factor);
        if (__builtin_mul_overflow(c->front().token, by, &c->front().token) ||
            __builtin_mul_overflow(c->front().choice, by, &c->front().choice))
          return std::nullopt;
        return c;
      }
      return std::nullopt;
    }
    case OpKind::Add: {
      auto a = of(x), b = of(g.operand(n, 1));
      if (!a || !b || a->size() != 1 || b->size() != 1 ||
          __builtin_add_overflow(a->front().token, b->front().token, &a->front().token) ||
          __builtin_add_overflow(a->front().choice, b->front().choice, &a->front().choice))
        return std::nullopt;
      return a;
    }
    case OpKind::Concat: {
      Columns all;
      if (g.dims(x)[static_cast<size_t>(g.attrs<AxisAttrs>(n).axis)] == rows) return std::nullopt;
      for (ValueId o : g.operands(n)) {
        const auto c = of(o);
        if (!c) return std::nullopt;
        all.insert(all.end(), c->begin(), c->end());
        if (all.size() > kMostColumns) return std::nullopt;  // nested ones would multiply
      }
      return all;
    }
    default: return std::nullopt;
  }
}

// The scatter of one expert, and the source of its rows.
struct Sent {
  NodeId scatter, found;
  ExpertMask mask;
};

// The node of kind `op` that `v` depends on through first operands.
NodeId source(const Graph& g, ValueId v, OpKind op) {
  for (int steps = 0; steps < kMostIndexSteps; ++steps) {
    const NodeId n = g.def(v);
    if (g.op(n) == op) return n;
    if (g.operands(n).empty()) return {};
    v = g.operand(n, 0);
  }
  return {};
}

// The addition of an expert's rows to a sum; before opset 16, a scatter onto zeros followed by an Add.
struct SumLink {
  NodeId scatter;
  ValueId sum;  // previous sum; invalid: none
};
std::optional<SumLink> link_of(const Graph& g, NodeId n) {
  const auto puts_rows = [&](NodeId s, Reduction how) {
    if (g.op(s) != OpKind::ScatterElements && g.op(s) != OpKind::ScatterNd) return false;
    const auto& a = g.attrs<ScatterAttrs>(s);
    return a.reduction == how && a.axis == 0 && g.rank(g.result(s)) == 2 && g.rank(g.operand(s, 2)) == 2 &&
           g.dims(g.operand(s, 2))[1] == g.dims(g.result(s))[1];
  };
  const auto onto_zeros = [&](NodeId s) {
    return puts_rows(s, Reduction::None) && scalar(g, g.operand(s, 0)) == 0 && g.has_one_use(g.result(s));
  };
  if (puts_rows(n, Reduction::Add)) return SumLink{n, g.operand(n, 0)};
  if (g.op(n) == OpKind::Add)
    for (size_t i = 0; i < 2; ++i)
      if (const NodeId s = g.def(g.operand(n, 1 - i)); onto_zeros(s)) return SumLink{s, g.operand(n, i)};
  return onto_zeros(n) ? std::optional(SumLink{n, {}}) : std::nullopt;
}

// Per-token numbers that each expert reads from a column of its own, for all rows: [rows, 1].
ValueId read_own_columns(const Graph& g, ExpertRows& rows, const Family& f, const std::vector<Sent>& sent) {
  std::optional<Shares> shares;
  for (size_t e = 0; e < f.size(); ++e) {
    const ValueId data = g.operand(g.def(f[e]), 0);
    const auto c = column_of(g, data);
    if (!c || c->expert != static_cast<int64_t>(e) || (shares && c->of != *shares) ||
        num_elements(g.type(data)) != g.module().dims.constant_value(rows.tokens()))
      return {};
    shares = c->of;
  }
  const Routing& routing = sent[0].mask.routing;
  const ValueId m = shares->matrix;
  if (m.valid() ? g.dims(m)[0] != rows.tokens() || g.dims(m)[1] != Dim(routing.experts) : shares->routing.who != routing.who)
    return {};
  std::string detail;
  const auto written = m.valid() ? shares_of(g, m, &detail) : std::nullopt;
  if (written && written->routing.who == routing.who) shares = written;
  shares->routing = routing;
  Builder& b = rows.builder();
  return b.reshape(b.cast(shares->value(b), g.dtype(f[0])), {rows.rows(), Dim(1)});
}

// Values that all experts read at their rows, for all rows: [rows, width].
ValueId read_at_rows(const Graph& g, ExpertRows& rows, const Family& f, const std::vector<Sent>& sent) {
  const NodeId n = g.def(f[0]);
  const OpKind op = g.op(n);
  const auto width = rows.width(f);
  if ((op != OpKind::Gather && op != OpKind::GatherNd) || !width) return {};
  const ValueId data = g.operand(n, 0);
  bool one_table = true;  // shared by all experts
  Columns index;
  for (size_t e = 0; e < f.size(); ++e) {
    const NodeId o = g.def(f[e]);
    if (g.op(o) != op || g.attr_id(o) != g.attr_id(n)) return {};
    one_table = one_table && g.operand(o, 0) == data;
    const auto c = columns_of(g, g.operand(o, 1), sent[e].found, sent[e].mask.coordinates);
    if (!c || (e > 0 && *c != index)) return {};
    index = *c;
  }
  const auto d = g.dims(data);
  const size_t axis = op == OpKind::Gather ? static_cast<size_t>(g.attrs<AxisAttrs>(n).axis) : 0;
  if (op == OpKind::GatherNd && g.attrs<BatchDimsAttrs>(n).batch_dims != 0) return {};
  // Returns whether data has one row per token, or per choice of each token, followed by no axis but the width.
  const auto is_table = [&](Dim size, size_t axes) {
    const bool leading = std::ranges::all_of(d.first(axis), [](Dim x) { return x == Dim(1); });
    return leading && d[axis] == size && d.size() <= axis + axes + 1 && (d.size() == axis + axes ? Dim(1) : d.back()) == *width;
  };
  Builder& b = rows.builder();
  if (!one_table) return index == Columns{kToken} && is_table(rows.tokens(), 1) ? read_own_columns(g, rows, f, sent) : ValueId();
  if (index == Columns{kToken} && is_table(rows.tokens(), 1)) return rows.repeated(b.reshape(data, {rows.tokens(), *width}));
  const bool by_number = rows.chosen().is_static() && index == Columns{{rows.chosen().size(), 1}} && is_table(rows.rows(), 1);
  const bool by_pair =
      op == OpKind::GatherNd && index == Columns{kToken, kChoice} && is_table(rows.tokens(), 2) && d[1] == rows.chosen();
  return by_number || by_pair ? b.reshape(data, {rows.rows(), *width}) : ValueId();
}

}  // namespace

std::optional<Mixture> dispatched(const Graph& g, NodeId root) {
  std::optional<SumLink> link = link_of(g, root);
  if (!link || !link->sum.valid()) return std::nullopt;
  if (const NodeId user = g.only_user(g.result(root)); user.valid())
    if (const auto next = link_of(g, user); next && next->sum == g.result(root)) return std::nullopt;
  const NodeId first = source(g, g.operand(link->scatter, 1), OpKind::NonZero);
  if (!first.valid()) return std::nullopt;
  const auto from = [&](OpKind op) { return source(g, g.operand(first, 0), op).valid(); };
  if (!from(OpKind::TopK) && !from(OpKind::ArgReduce)) return std::nullopt;
  Mixture m;
  const auto unlike = [&](std::string detail) {
    m.reason = "unlike";
    m.detail = std::move(detail);
    return m;
  };
  std::vector<Sent> sent;
  for (NodeId n = root;;) {
    const NodeId found = source(g, g.operand(link->scatter, 1), OpKind::NonZero);
    const auto mask = found.valid() ? mask_of(g, g.operand(found, 0)) : std::nullopt;
    if (!mask || (!sent.empty() && mask->routing.who != sent[0].mask.routing.who))
      return unlike("the tokens of an expert are not those that have it among their choices");
    const auto to = columns_of(g, g.operand(link->scatter, 1), found, mask->coordinates);
    if (!to || *to != Columns{kToken}) return unlike("rows of an expert are not added to the tokens that they are of");
    sent.push_back({link->scatter, found, *mask});
    m.sums.push_back(n);
    if (n != link->scatter) m.sums.push_back(link->scatter);
    if (static_cast<int64_t>(sent.size()) == mask->routing.experts) break;
    const bool goes_on = link->sum.valid() && g.has_one_use(link->sum);
    if (goes_on) {
      n = g.def(link->sum);
      link = link_of(g, n);
    }
    if (!goes_on || !link)
      return unlike("the rows of " + std::to_string(sent.size()) + " experts of " + std::to_string(mask->routing.experts) +
                    " are added");
  }
  std::ranges::sort(sent, {}, [](const Sent& s) { return s.mask.expert; });
  m.routing = sent[0].mask.routing;
  if (g.dims(g.result(root))[0] != g.dims(m.routing.who)[0]) return unlike("rows are added to something else than the tokens");
  for (size_t e = 0; e < sent.size(); ++e) {
    if (sent[e].mask.expert != static_cast<int64_t>(e)) return unlike("no rows of expert " + std::to_string(e) + " are added");
    m.experts.push_back(g.operand(sent[e].scatter, 2));
    m.rows_of.push_back(g.dims(g.result(sent[e].found))[1]);
  }
  if (link->sum.valid() && scalar(g, link->sum) != 0) m.start = link->sum;
  m.leaf = [&g, sent](ExpertRows& rows, const Family& f) { return read_at_rows(g, rows, f, sent); };
  return m;
}

}  // namespace rlxc
