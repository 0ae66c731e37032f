#include "passes/fuse/epilogue.h"

namespace rlxc::fuse {

using namespace match;

namespace {

constexpr int kReaders = 8;
constexpr int kMoves = 4;  // limit on layout ops before an activation

std::optional<Epilogue> describe(const Graph& g, NodeId n, DType t) {
  if (n == g.terminator() || !has_trait(g.op(n), kActivation) || g.dtype(g.result(n)) != t) return std::nullopt;
  Epilogue e{true, g.op(n), 0, 0};
  const Attrs& a = g.module().attrs[g.attr_id(n)];
  if (const auto* p = std::get_if<AlphaBetaAttrs>(&a)) {
    e.alpha = p->alpha;
    e.beta = p->beta;
  } else if (const auto* c = std::get_if<ClampAttrs>(&a)) {
    e.alpha = c->min;
    e.beta = c->max;
  } else if (!std::holds_alternative<NoAttrs>(a)) return std::nullopt;
  return e;
}

}  // namespace

ValueId after_layout_ops(const Graph& g, ValueId v) {
  for (int moves = 0; moves < kMoves; ++moves) {
    const NodeId n = g.only_user(v);
    if (!n.valid() || (g.op(n) != OpKind::Reshape && g.op(n) != OpKind::Transpose)) break;
    v = g.result(n);
  }
  return v;
}

std::optional<EpilogueMatch> take_epilogue(const Graph& g, ValueId v, NodeId root, std::string_view pattern, PassContext& ctx) {
  const auto decline = [&](std::string_view reason, std::string detail, std::string hint) {
    decline_end(ctx, g, pattern, root, reason, std::move(detail), std::move(hint));
    return std::nullopt;
  };
  v = after_layout_ops(g, v);
  int looked_at = 0;
  for (const auto use : g.uses(v)) {
    if (++looked_at > kReaders) break;
    const auto e = describe(g, use.user, g.dtype(v));
    if (!e) continue;
    if (!g.has_one_use(v))
      return decline(g.is_output(v) ? "graph_output" : "multi_consumer",
                     std::string(name(e->op)) + " is one of " + std::to_string(g.use_count(v)) + " readers",
                     "read the value only through the activation");
    if (!ctx.target.epilogues.test(static_cast<size_t>(e->op)))
      return decline("epilogue_unsupported", std::string(name(e->op)) + " is no epilogue of target " + ctx.target.name, "");
    return EpilogueMatch{use.user, *e};
  }
  return std::nullopt;
}

void bypass(Graph& g, NodeId activation) { replace(g, g.result(activation), g.operand(activation, 0)); }

std::optional<ResidualMatch> match_residual(const Graph& g, ValueId v) {
  const NodeId n = g.only_user(v);
  if (!n.valid() || n == g.terminator() || g.op(n) != OpKind::Add) return std::nullopt;
  const ValueId r = other(g, n, v);
  if (!r.valid() || !same_type(g, r, v) || !same_type(g, g.result(n), v)) return std::nullopt;
  return ResidualMatch{n, r};
}

}  // namespace rlxc::fuse
