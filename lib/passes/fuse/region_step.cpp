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
  RegionStep s = core_step(g, n);
  for (size_t i = 0; i < g.operands(n).size(); ++i) s.args[i] = static_cast<uint16_t>(i);
  return s;
}

RegionStep core_step(const Graph& g, NodeId n) {
  RegionStep s{g.op(n), g.dtype(g.result(n))};
  s.attrs = step_attrs(g.module().attrs[g.attr_id(n)]);
  return s;
}

Attrs attrs_of_step(const RegionStep& s) {
  if (s.op == OpKind::Cast) return CastAttrs{.to = s.dtype};
  if (s.op == OpKind::Div) return NoAttrs{};  // see allow_reciprocals
  return std::visit([](const auto& a) -> Attrs { return a; }, s.attrs);
}

size_t argument_count(const RegionStep& s) {
  size_t n = 0;
  while (n < s.args.size() && s.args[n] != RegionStep::kNone) ++n;
  return n;
}

}  // namespace rlxc
