#include "passes/fuse/epilogue.h"

namespace rlxc::fuse {

using namespace match;

std::optional<EpilogueMatch> match_epilogue(const Graph& g, ValueId v) {
  const NodeId n = g.only_user(v);
  if (!n.valid() || n == g.terminator() || !has_trait(g.op(n), kActivation) || g.dtype(g.result(n)) != g.dtype(v)) return std::nullopt;
  EpilogueMatch m{n, {true, g.op(n), 0, 0}};
  const Attrs& a = g.module().attrs[g.attr_id(n)];
  if (const auto* p = std::get_if<AlphaBetaAttrs>(&a)) m.act.alpha = p->alpha, m.act.beta = p->beta;
  else if (const auto* c = std::get_if<ClampAttrs>(&a)) m.act.alpha = c->min, m.act.beta = c->max;
  else if (!std::holds_alternative<NoAttrs>(a)) return std::nullopt;
  return m;
}

bool allowed(const PassContext& ctx, const Epilogue& e) { return ctx.target.epilogues.test(static_cast<size_t>(e.op)); }

std::optional<ResidualMatch> match_residual(const Graph& g, ValueId v) {
  const NodeId n = g.only_user(v);
  if (!n.valid() || n == g.terminator() || g.op(n) != OpKind::Add) return std::nullopt;
  const ValueId r = other(g, n, v);
  if (!r.valid() || !same_type(g, r, v) || !same_type(g, g.result(n), v)) return std::nullopt;
  return ResidualMatch{n, r};
}

}  // namespace rlxc::fuse
