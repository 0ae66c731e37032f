#include "passes/match.h"

#include <algorithm>
#include <cmath>

#include "analysis/phases.h"
#include "passes/provenance.h"

namespace rlxc::match {
namespace {

constexpr int64_t kScalarElements = 64;

// Relative tolerance for rounding to the type.
double tolerance(DType t) {
  switch (bits(t)) {
    case 16: return t == DType::BF16 ? 1e-2 : 2e-3;
    case 64: return 1e-6;  // exporters write f32 literals into f64 constants
    default: return 2e-6;
  }
}

}  // namespace

const TensorData* data_of(const Graph& g, ValueId v) {
  const NodeId n = g.def(v);
  if (g.op(n) != OpKind::Constant && g.op(n) != OpKind::Param) return nullptr;
  const DataId id = g.attrs<DataAttrs>(n).data;
  if (!id.valid()) return nullptr;
  const TensorData& d = g.module().data[id];
  return d.bytes.empty() || !d.strings.empty() || is_complex(d.dtype) ? nullptr : &d;
}

std::optional<double> scalar(const Graph& g, ValueId v) {
  for (int depth = 0; depth < 16 && v.valid(); ++depth) {
    const NodeId n = g.def(v);
    switch (g.op(n)) {
      case OpKind::Expand:
      case OpKind::Reshape: v = g.operand(n, 0); continue;
      case OpKind::Cast: {
        const DType to = g.attrs<CastAttrs>(n).to, from = g.dtype(g.operand(n, 0));
        if (!(rlxc::is_float(to) || to == from) || !(rlxc::is_float(from) || is_integer(from))) return std::nullopt;
        v = g.operand(n, 0);
        continue;
      }
      default: break;
    }
    const TensorData* d = data_of(g, v);
    if (!d || d->elements() < 1 || (!d->splat && d->elements() > kScalarElements)) return std::nullopt;
    const double first = element_as_double(*d, 0);
    for (int64_t i = 1; !d->splat && i < d->elements(); ++i)
      if (element_as_double(*d, i) != first) return std::nullopt;
    return first;
  }
  return std::nullopt;
}

bool same_number(const Graph& g, ValueId a, ValueId b) {
  if (a == b) return true;
  if (!a.valid() || !b.valid() || !same_type(g, a, b)) return false;
  const auto x = scalar(g, a), y = scalar(g, b);
  return x && x == y;
}

bool is_scalar(const Graph& g, ValueId v, double want) {
  const auto c = scalar(g, v);
  return c && near(g, v, *c, want);
}

std::vector<double> elements(const Graph& g, ValueId v, int64_t limit) {
  const TensorData* d = v.valid() ? data_of(g, v) : nullptr;
  if (!d || d->elements() > limit) return {};
  std::vector<double> out(static_cast<size_t>(d->elements()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = element_as_double(*d, d->splat ? 0 : static_cast<int64_t>(i));
  return out;
}

bool has_narrow_type(const Graph& g, ValueId v) {
  return v.valid() && g.type(v).kind == TypeKind::Tensor && is_narrow(g.dtype(v));
}

bool has_integers(const Graph& g, ValueId v) {
  for (NodeId n = g.def(v); n.valid() && (g.op(n) == OpKind::Cast || g.op(n) == OpKind::Reshape); n = g.def(v)) {
    v = g.operand(n, 0);
    if (is_integer(g.dtype(v))) return true;
  }
  return false;
}

bool is_absent_or_zero(const Graph& g, ValueId v) {
  if (!v.valid()) return true;
  for (int depth = 0; depth < 16 && (g.op(g.def(v)) == OpKind::Reshape || g.op(g.def(v)) == OpKind::Expand); ++depth)
    v = g.operand(g.def(v), 0);
  const TensorData* d = data_of(g, v);
  if (!d) return false;
  for (int64_t i = 0; i < (d->splat ? 1 : d->elements()); ++i)
    if (element_as_double(*d, i) != 0) return false;
  return true;
}

NodeId defining_op(const Graph& g, ValueId v, OpKind op) {
  if (!v.valid()) return {};
  const NodeId n = g.def(v);
  return g.op(n) == op ? n : NodeId();
}

ValueId other(const Graph& g, NodeId n, ValueId v) {
  const ValueId a = g.operand(n, 0), b = g.operand(n, 1);
  if (a == b) return {};
  return a == v ? b : b == v ? a : ValueId();
}

std::optional<WithScalar> with_scalar(const Graph& g, ValueId v, OpKind op) {
  const NodeId n = defining_op(g, v, op);
  if (!n.valid()) return std::nullopt;
  for (size_t i = 1; i < 2; --i) {  // the second operand first; the first only if the op is commutative
    const ValueId x = g.operand(n, 1 - i);
    if (const auto c = scalar(g, g.operand(n, i)); c && same_dims(g, x, v)) return WithScalar{x, *c};
    if (!has_trait(op, kCommutative)) break;
  }
  return std::nullopt;
}

std::optional<WithScalar> scaled(const Graph& g, ValueId v) {
  if (const auto m = with_scalar(g, v, OpKind::Mul)) return m;
  if (const auto d = with_scalar(g, v, OpKind::Div); d && d->c != 0) return WithScalar{d->x, 1 / d->c};
  return std::nullopt;
}

Product product(const Graph& g, ValueId root, ValueId stop) {
  Product p;
  struct Item {
    ValueId v;
    int power;
    int depth;
  };
  std::vector<Item> work{{root, 1, 0}};
  while (!work.empty()) {
    const auto [v, power, depth] = work.back();
    work.pop_back();
    const NodeId n = g.def(v);
    const OpKind op = g.op(n);
    if (v != stop) {
      if (const auto c = scalar(g, v)) {
        p.c *= std::pow(*c, power);
        continue;
      }
      if (depth < 5 && op == OpKind::Mul) {
        work.push_back({g.operand(n, 1), power, depth + 1});
        work.push_back({g.operand(n, 0), power, depth + 1});
        continue;
      }
      if (depth < 5 && op == OpKind::Div && scalar(g, g.operand(n, 1)).value_or(0) != 0) {
        p.c /= std::pow(*scalar(g, g.operand(n, 1)), power);
        work.push_back({g.operand(n, 0), power, depth + 1});
        continue;
      }
      if (depth < 5 && op == OpKind::Pow) {
        const auto e = scalar(g, g.operand(n, 1));
        if (e && (*e == 2 || *e == 3)) {
          work.push_back({g.operand(n, 0), power * static_cast<int>(*e), depth + 1});
          continue;
        }
      }
    }
    for (int i = 0; i < power; ++i) p.factors.push_back(v);
  }
  std::ranges::sort(p.factors, {}, &ValueId::raw);
  return p;
}

bool near(const Graph& g, ValueId v, double c, double want) {
  return std::abs(c - want) <= std::abs(want) * tolerance(g.dtype(v));
}

bool is_float(const Graph& g, ValueId v) { return rlxc::is_float(g.dtype(v)); }
bool same_dims(const Graph& g, ValueId a, ValueId b) { return std::ranges::equal(g.dims(a), g.dims(b)); }
bool same_type(const Graph& g, ValueId a, ValueId b) { return g.dtype(a) == g.dtype(b) && same_dims(g, a, b); }

bool is_weight(const Graph& g, ValueId v, int depth) {
  if (!v.valid()) return false;
  const NodeId n = g.def(v);
  if (!has_trait(g.op(n), kLeaf) && (depth == 0 || has_trait(g.op(n), kBody) || g.operands(n).empty())) return false;
  return is_load_time(g, n, [&](ValueId o) { return is_weight(g, o, depth - 1); });
}

std::optional<int64_t> size_at(const Graph& g, ValueId v, int axis) {
  const auto d = g.dims(v);
  if (axis < 0) axis += static_cast<int>(d.size());
  if (axis < 0 || axis >= static_cast<int>(d.size())) return std::nullopt;
  return g.module().dims.constant_value(d[static_cast<size_t>(axis)]);
}

int64_t bytes(const Graph& g, ValueId v) { return static_cast<int64_t>(byte_size(g.type(v)).value_or(0)); }

void erase_dead(Graph& g, NodeId start) {
  std::vector<NodeId> work{start};
  while (!work.empty()) {
    const NodeId n = work.back();
    work.pop_back();
    if (!g.alive(n) || n == g.terminator() || has_trait(g.op(n), kImpure | kBody | kTerminator)) continue;
    if (g.op(n) == OpKind::Input || g.op(n) == OpKind::Param) continue;
    bool used = false;
    for (size_t r = 0; r < g.result_count(n); ++r) used = used || g.use_count(g.result(n, r)) > 0;
    if (used) continue;
    for (ValueId v : g.operands(n))
      if (v.valid()) work.push_back(g.def(v));
    g.erase(n);
  }
}

void replace(Graph& g, ValueId from, ValueId to) {
  g.replace_all_uses(from, to);
  erase_dead(g, g.def(from));
}

void replace_group(Graph& g, std::span<const NodeId> members, ValueId from, ValueId to) {
  merge_origins(g, g.def(to), members);
  replace(g, from, to);
}

Order::Order(const Graph& g) : position_(g.node_capacity()) {
  uint32_t i = 0;
  for (NodeId n : g.nodes()) position_[n.raw] = ++i;
}

void Order::hoist(Graph& g, ValueId v, NodeId before) {
  struct Frame {
    NodeId n;
    size_t next;  // operand to visit
  };
  std::vector<Frame> path;
  const auto visit = [&](ValueId x) {
    if (x.valid() && at(g.def(x)) > at(before)) path.push_back({g.def(x), 0});  // otherwise earlier, or already moved
  };
  visit(v);
  while (!path.empty()) {
    Frame& f = path.back();
    const auto operands = g.operands(f.n);
    if (f.next < operands.size()) {
      visit(operands[f.next++]);
      continue;
    }
    const NodeId n = f.n;
    path.pop_back();
    if (at(n) <= at(before)) continue;
    g.move_before(n, before);
    position_[n.raw] = at(before);
  }
}

bool is_row(const Graph& g, ValueId v, ValueId x) {
  if (g.dtype(v) != g.dtype(x)) return false;
  const auto d = g.dims(v);
  for (size_t i = 0; i + 1 < d.size(); ++i)
    if (d[i] != Dim(1)) return false;
  return d.size() <= g.dims(x).size() && (d.empty() || d.back() == Dim(1) || d.back() == g.dims(x).back());
}

bool per_channel(const Graph& g, ValueId v, ValueId y) {
  const auto d = g.dims(v), full = g.dims(y);
  if (g.dtype(v) != g.dtype(y) || d.size() > full.size() || d.size() + 1 < full.size() || !is_weight(g, v)) return false;
  const size_t skip = full.size() - d.size();
  for (size_t i = 0; i < d.size(); ++i)
    if (d[i] != (i + skip == 1 ? full[1] : Dim(1))) return false;
  return true;
}

ValueId as_row(Builder& b, ValueId v, ValueId x) {
  const Graph& g = b.graph();
  if (!is_row(g, v, x)) return {};
  return g.rank(v) <= 1 ? v : b.reshape(v, {g.dims(v).back()});
}

Symbol label_symbol(const Graph& g, NodeId n) {
  if (g.node_name(n).valid()) return g.node_name(n);
  if (g.origin(n).valid() && !g.module().origin(g.origin(n)).sources.empty())
    return g.module().origin(g.origin(n)).sources.front();
  if (g.result_count(n) > 0 && g.value_name(g.result(n)).valid()) return g.value_name(g.result(n));
  return g.module().symbol(g.label(n).bytes());
}

Decision fused(const Graph& g, std::string_view pattern, NodeId root, std::span<const NodeId> members, int64_t bytes_saved) {
  Decision d;
  d.pattern = pattern;
  d.reason = "fused";
  d.node = label_symbol(g, root);
  d.graph = g.id();
  for (NodeId n : members) d.members.push_back(label_symbol(g, n));
  d.fused = true;
  d.launches_saved = std::max<int64_t>(0, static_cast<int64_t>(members.size()) - 1);
  d.bytes_saved = bytes_saved;
  return d;
}

void record_before(PassContext& ctx, size_t first, Decision d) {
  ctx.decisions.insert(ctx.decisions.begin() + static_cast<std::ptrdiff_t>(first), std::move(d));
}

Decision declined(const Graph& g, std::string_view pattern, NodeId root, std::string_view reason, std::string detail,
                  std::string hint) {
  Decision d;
  d.pattern = pattern;
  d.reason = reason;
  d.node = label_symbol(g, root);
  d.graph = g.id();
  d.detail = std::move(detail);
  d.hint = std::move(hint);
  return d;
}

bool decline(PassContext& ctx, const Graph& g, std::string_view pattern, NodeId root, std::string_view reason, std::string detail,
             std::string hint) {
  ctx.decisions.push_back(declined(g, pattern, root, reason, std::move(detail), std::move(hint)));
  return false;
}

bool decline_end(PassContext& ctx, const Graph& g, std::string_view pattern, NodeId root, std::string_view reason,
                 std::string detail, std::string hint) {
  Decision d = declined(g, pattern, root, reason, std::move(detail), std::move(hint));
  d.lapses_when_merged = true;
  ctx.decisions.push_back(std::move(d));
  return false;
}

}  // namespace rlxc::match
