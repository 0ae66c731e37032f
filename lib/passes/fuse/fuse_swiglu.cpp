// Fuses up * act(gate) of the two halves of one packed value (SwiGLU, GeGLU, ReGLU) into FusedSwiGLU.
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

std::optional<NarrowAttrs> half_of(const Graph& g, ValueId v, ValueId* source) {
  const NodeId n = defining_op(g, v, OpKind::Narrow);
  if (!n.valid()) return std::nullopt;
  const NarrowAttrs a = g.attrs<NarrowAttrs>(n);
  *source = g.operand(n, 0);
  DimTable& t = g.module().dims;
  if (a.axis != g.rank(v) - 1 || !t.equal(t.add(a.len, a.len), g.dims(*source).back())) return std::nullopt;
  if (!t.equal(a.start, Dim(0)) && !t.equal(a.start, a.len)) return std::nullopt;
  return a;
}

bool is_gate(OpKind op) {
  return op == OpKind::Silu || op == OpKind::Gelu || op == OpKind::GeluApprox || op == OpKind::Relu || op == OpKind::Sigmoid;
}

bool fuse_gate(Graph& g, NodeId n, PassContext& ctx) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId up = g.operand(n, i), acted = g.operand(n, 1 - i);
    const NodeId act = g.def(acted);
    if (!is_gate(g.op(act))) continue;
    const ValueId gate = g.operand(act, 0);
    ValueId a, b;
    const NodeId ups = defining_op(g, up, OpKind::MatMul), gates = defining_op(g, gate, OpKind::MatMul);
    if (ups.valid() && gates.valid() && g.operand(ups, 0) != g.operand(gates, 0))
      return decline(ctx, g, "swiglu", n, "inputs_differ", "the gate and what it multiplies are matmuls of two values");
    const auto up_half = half_of(g, up, &a), gate_half = half_of(g, gate, &b);
    if (!up_half || !gate_half || a != b || up_half->start == gate_half->start) continue;
    if (!g.has_one_use(acted)) {
      ctx.decisions.push_back(declined(g, "swiglu", n, "multi_consumer", "the activated gate is read elsewhere as well"));
      return false;
    }
    const NodeId members[] = {act, n};
    ctx.decisions.push_back(fused(g, "swiglu", n, members, 2 * bytes(g, acted)));
    SwiGLUAttrs attrs;
    attrs.gate_first = g.module().dims.equal(gate_half->start, Dim(0));
    attrs.act = Epilogue{true, g.op(act), 0, 0};
    Builder builder(g, nullptr, n);
    replace_group(g, members, g.result(n), builder.create(OpKind::FusedSwiGLU, {a}, attrs));
    return true;
  }
  return false;
}

}  // namespace

PassResult fuse_swiglu(Module& m, PassContext& ctx) {
  int64_t found = 0;
  if (!ctx.target.native.test(static_cast<size_t>(OpKind::FusedSwiGLU))) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Mul && is_float(g, g.result(n))) found += ctx.rewrite([&] { return fuse_gate(g, n, ctx); });
  });
  return {found > 0, {{"swiglu", found}}};
}

}  // namespace rlxc
