#include "passes/recognise/norm_match.h"

#include <algorithm>

namespace rlxc::recognise {
namespace {

using namespace match;

// Matches v = 1/sqrt(s) in any form. Returns s, or invalid.
ValueId rsqrt_operand(const Graph& g, ValueId v, std::vector<NodeId>& nodes) {
  const NodeId n = g.def(v);
  NodeId root;
  switch (g.op(n)) {
    case OpKind::Rsqrt: nodes.push_back(n); return g.operand(n, 0);
    case OpKind::Recip: root = defining_op(g, g.operand(n, 0), OpKind::Sqrt); break;
    case OpKind::Div:
      if (is_scalar(g, g.operand(n, 0), 1)) root = defining_op(g, g.operand(n, 1), OpKind::Sqrt);
      break;
    case OpKind::Pow:
      if (!is_scalar(g, g.operand(n, 1), -0.5)) return {};
      nodes.push_back(n);
      return g.operand(n, 0);
    default: return {};
  }
  if (!root.valid()) return {};
  nodes.insert(nodes.end(), {n, root});
  return g.operand(root, 0);
}

// Matches s = mean(x^2) + eps for this x, or for any x if it is invalid.
bool match_mean_square(const Graph& g, ValueId s, ValueId x, NormCore& core) {
  const auto sum = with_scalar(g, s, OpKind::Add);
  if (!sum || !(sum->c >= 0)) return false;
  const auto mean = match_trailing_mean(g, sum->x);
  if (!mean) return false;
  const NodeId square = g.def(mean->x);
  const bool is_mul = g.op(square) == OpKind::Mul && g.operand(square, 0) == g.operand(square, 1);
  const bool is_pow = g.op(square) == OpKind::Pow && is_scalar(g, g.operand(square, 1), 2);
  if (!is_mul && !is_pow) return false;
  const ValueId base = g.operand(square, 0);
  if (!x.valid()) {
    x = base;
  } else if (base != x) {  // some exporters subtract the mean twice
    const NodeId a = defining_op(g, base, OpKind::Sub), b = defining_op(g, x, OpKind::Sub);
    if (!a.valid() || !b.valid() || g.operand(a, 0) != g.operand(b, 0) || g.operand(a, 1) != g.operand(b, 1)) return false;
  }
  if (!same_type(g, base, mean->x)) return false;  // a wider exponent tensor would have broadcast it
  core.x = x;
  core.axis = mean->axis;
  core.eps = sum->c;
  core.nodes.insert(core.nodes.end(), {g.def(s), mean->node, square});
  return true;
}

// Returns whether gamma or beta fits axes axis..last of x: no further axes, except leading ones of dim 1.
bool fits(const Graph& g, ValueId v, ValueId x, int64_t axis) {
  const auto d = g.dims(v), want = g.dims(x).subspan(static_cast<size_t>(axis));
  const size_t extra = d.size() > want.size() ? d.size() - want.size() : 0;
  for (size_t i = 0; i < extra; ++i)
    if (d[i] != Dim(1)) return false;
  const auto tail = d.subspan(extra);
  for (size_t i = 0; i < tail.size(); ++i)
    if (tail[i] != Dim(1) && tail[i] != want[want.size() - tail.size() + i]) return false;
  return true;
}

}  // namespace

std::optional<TrailingMean> match_trailing_mean(const Graph& g, ValueId v) {
  const NodeId n = defining_op(g, v, OpKind::Reduce);
  if (!n.valid()) return std::nullopt;
  const auto& a = g.attrs<ReduceAttrs>(n);
  if (a.op != ReduceOp::Mean || !a.keep_dim || a.axes.empty()) return std::nullopt;
  std::vector<int64_t> axes = a.axes;
  std::ranges::sort(axes);
  const int64_t rank = g.rank(g.operand(n, 0));
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return std::nullopt;
  return TrailingMean{g.operand(n, 0), axes[0], n};
}

std::optional<NormCore> match_norm_core(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Mul && g.op(n) != OpKind::Div) return std::nullopt;
  if (!is_float(g, g.result(n))) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = g.operand(n, i), r = g.operand(n, 1 - i);
    NormCore core;
    ValueId s;
    if (g.op(n) == OpKind::Mul) {
      s = rsqrt_operand(g, r, core.nodes);
    } else if (i == 0) {
      const NodeId root = defining_op(g, r, OpKind::Sqrt);
      if (root.valid()) core.nodes.push_back(root), s = g.operand(root, 0);
    }
    if (s.valid() && same_dims(g, x, g.result(n)) && match_mean_square(g, s, x, core)) {
      core.nodes.push_back(n);
      return core;
    }
  }
  return std::nullopt;
}

std::optional<Expanded> match_expanded_layer_norm(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Add || !is_float(g, g.result(n))) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const NodeId scaled = defining_op(g, g.operand(n, i), OpKind::Mul), shift = defining_op(g, g.operand(n, 1 - i), OpKind::Sub);
    const NodeId centre = shift.valid() ? defining_op(g, g.operand(shift, 1), OpKind::Mul) : NodeId();
    if (!scaled.valid() || !centre.valid()) continue;
    for (size_t k = 0; k < 2; ++k) {
      const ValueId x = g.operand(scaled, k), r = g.operand(scaled, 1 - k), mean = other(g, centre, r);
      if (!mean.valid() || !same_type(g, x, g.result(n))) continue;
      Expanded e;
      e.beta = g.operand(shift, 0);
      ValueId inverse = r;
      if (const NodeId mul = defining_op(g, r, OpKind::Mul); mul.valid())
        for (size_t j = 0; j < 2; ++j) {
          std::vector<NodeId> nodes;
          if (rsqrt_operand(g, g.operand(mul, j), nodes).valid()) inverse = g.operand(mul, j), e.gamma = g.operand(mul, 1 - j);
        }
      const ValueId s = rsqrt_operand(g, inverse, e.core.nodes);
      const auto m = match_trailing_mean(g, mean);
      if (!s.valid() || !m || m->x != x || !match_mean_square(g, s, {}, e.core) || m->axis != e.core.axis) continue;
      const NodeId sub = defining_op(g, e.core.x, OpKind::Sub);
      if (!sub.valid() ||
          !((g.operand(sub, 0) == x && g.operand(sub, 1) == mean) || (g.operand(sub, 0) == mean && g.operand(sub, 1) == x)))
        continue;
      if (!fits(g, e.beta, x, m->axis) || (e.gamma.valid() && !fits(g, e.gamma, x, m->axis))) continue;
      e.core.x = x;
      e.core.nodes.insert(e.core.nodes.end(), {sub, m->node, scaled, centre, shift, n});
      return e;
    }
  }
  return std::nullopt;
}

Affine match_affine(const Graph& g, ValueId core, int64_t axis, DType source, bool with_beta) {
  Affine a;
  a.value = core;
  auto only = [&](OpKind op) {
    const NodeId user = g.only_user(a.value);
    return user.valid() && user != g.terminator() && g.op(user) == op ? user : NodeId();
  };
  auto take = [&](NodeId n) { a.nodes.push_back(n), a.value = g.result(n); };
  if (g.dtype(core) != source) {  // computed in f32 between two casts
    const NodeId cast = only(OpKind::Cast);
    if (!cast.valid() || g.attrs<CastAttrs>(cast).to != source) return a;
    take(cast);
  }
  const NodeId mul = only(OpKind::Mul);
  if (!mul.valid()) return a;
  const ValueId gamma = other(g, mul, a.value);
  if (!gamma.valid() || !same_dims(g, g.result(mul), core) || !fits(g, gamma, core, axis)) return a;
  a.gamma = gamma;
  take(mul);
  const NodeId add = with_beta ? only(OpKind::Add) : NodeId();
  if (!add.valid()) return a;
  const ValueId beta = other(g, add, a.value);
  if (!beta.valid() || !same_dims(g, g.result(add), core) || !fits(g, beta, core, axis)) return a;
  a.beta = beta;
  take(add);
  return a;
}

bool emit_norm(Graph& g, PassContext& ctx, OpKind op, std::string_view pattern, ValueId x, const NormCore& core,
               const Affine& affine) {
  const NodeId root = g.def(affine.value);
  std::vector<NodeId> members = core.nodes;
  members.insert(members.end(), affine.nodes.begin(), affine.nodes.end());
  int64_t traffic = 0;
  for (NodeId n : members)
    if (n != root) traffic += 2 * bytes(g, g.result(n));
  Builder b(g, nullptr, root);
  auto flat = [&](ValueId v) {  // drops leading axes of dim 1 that the normalised axes do not have
    if (!v.valid()) return v;
    const auto d = g.dims(v);
    const size_t tail = g.dims(x).size() - static_cast<size_t>(core.axis);
    return d.size() <= tail ? v : b.reshape(v, {d.end() - static_cast<std::ptrdiff_t>(tail), d.end()});
  };
  const ValueId gamma = flat(affine.gamma), beta = flat(affine.beta);
  const ValueId y = b.create(op, {x, gamma, beta}, NormAttrs{core.axis, core.eps});
  if (!y.valid()) return false;
  Decision d = fused(g, pattern, root, members, traffic);
  ctx.decisions.push_back(std::move(d));
  replace(g, affine.value, y);
  return true;
}

bool emit_norm(Graph& g, PassContext& ctx, OpKind op, std::string_view pattern, NodeId n, ValueId x, const NormCore& core) {
  const auto affine = [&](DType source) { return match_affine(g, g.result(n), core.axis, source, op == OpKind::LayerNorm); };
  const DType t = g.dtype(x);
  if (const NodeId cast = defining_op(g, x, OpKind::Cast);
      cast.valid() && t == DType::F32 && bits(g.dtype(g.operand(cast, 0))) == 16 && is_float(g, g.operand(cast, 0))) {
    const ValueId half = g.operand(cast, 0);
    const Affine narrow = affine(g.dtype(half));
    if (g.dtype(narrow.value) != t) return emit_norm(g, ctx, op, pattern, half, core, narrow);
  }
  return emit_norm(g, ctx, op, pattern, x, core, affine(t));
}

}  // namespace rlxc::recognise
