#include "passes/fuse/region_step.h"

namespace rlxc {
namespace {

bool step_type(DType t) {
  switch (t) {
    case DType::F32:
    case DType::F64:
    case DType::F16:
    case DType::BF16:
    case DType::Bool: return true;
    default: return is_integer(t) && bits(t) >= 8;
  }
}

}  // namespace

bool can_be_step(const Graph& g, NodeId n) {
  if (!has_trait(g.op(n), kElementwise) || g.op(n) == OpKind::ElementwiseRegion) return false;
  for (ValueId v : g.operands(n))
    if (!v.valid() || g.type(v).kind != TypeKind::Tensor || !step_type(g.dtype(v))) return false;
  return step_type(g.dtype(g.result(n)));
}

RegionStep make_step(const Graph& g, NodeId n) {
  RegionStep s;
  s.op = g.op(n);
  s.dtype = g.dtype(g.result(n));
  const Attrs& a = g.module().attrs[g.attr_id(n)];
  if (const auto* ab = std::get_if<AlphaBetaAttrs>(&a)) {
    s.alpha = ab->alpha;
    s.beta = ab->beta;
  }
  if (const auto* c = std::get_if<ClampAttrs>(&a)) {
    s.alpha = c->min;
    s.beta = c->max;
  }
  return s;
}

Attrs attrs_of_step(const RegionStep& s) {
  Attrs a = default_attrs(s.op);
  if (auto* ab = std::get_if<AlphaBetaAttrs>(&a)) {
    ab->alpha = s.alpha;
    ab->beta = s.beta;
  }
  if (auto* c = std::get_if<ClampAttrs>(&a)) {
    c->min = s.alpha;
    c->max = s.beta;
  }
  if (auto* c = std::get_if<CastAttrs>(&a)) c->to = s.dtype;
  return a;
}

size_t argument_count(const RegionStep& s) {
  size_t n = 0;
  while (n < s.args.size() && s.args[n] != RegionStep::kNone) ++n;
  return n;
}

}  // namespace rlxc
