// Fuses FusedSwiGLU(x*w + bias) into FusedMatMulSwiGLU(x, w, bias), or into a gated DequantMatMul if w is quantized. The packed
// matmul, twice the size of the result, is never written. Reshapes between them that keep the last axis move behind the gate.
// Declined if the matmul has other users or the added value is no bias. O(nodes).
#include "passes/fuse/weight_matmul.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr int kMostGateSteps = 4;  // limit on nodes from the gate to the matmul

// The chain from a matmul to its gate.
struct Packed {
  NodeId matmul, shared;  // shared: first node on the way with other users, if any
  ValueId bias, biased;   // the added row, if any, and the value to which it is added
  std::vector<NodeId> members;
};

bool keeps_rows(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Reshape) return false;
  const auto from = g.dims(g.operand(n, 0)), to = g.dims(g.result(n));
  return !from.empty() && !to.empty() && from.back() == to.back();
}

Packed packed_matmul(const Graph& g, NodeId gate) {
  Packed p;
  p.members.push_back(gate);
  ValueId v = g.operand(gate, 0);
  for (int steps = 0; steps < kMostGateSteps; ++steps) {
    const NodeId n = g.def(v);
    if (!g.has_one_use(v) && !p.shared.valid()) p.shared = n;
    p.matmul = n;
    if (keeps_rows(g, n)) {
      v = g.operand(n, 0);
      continue;
    }
    const bool adds = g.op(n) == OpKind::Add && !p.bias.valid();
    for (size_t i = 0; adds && i < 2 && !p.bias.valid(); ++i)
      if (const ValueId x = g.operand(n, i), row = g.operand(n, 1 - i); is_row(g, row, x) && same_type(g, x, v)) {
        p.biased = x;
        p.bias = row;
      }
    p.members.insert(p.members.begin(), n);
    if (!adds || !p.bias.valid()) break;
    v = p.biased;
  }
  return p;
}

int64_t fuse_matmuls(Graph& g, NodeId n, PassContext& ctx) {
  const Packed p = packed_matmul(g, n);
  const auto decline = [&](std::string_view reason, std::string detail) {
    ctx.decisions.push_back(declined(g, "matmul_swiglu", n, reason, std::move(detail)));
    return 0;
  };
  if (g.op(p.matmul) == OpKind::Add) {
    for (ValueId v : g.operands(p.matmul))
      if (fuse::is_weight_matmul(g, g.def(v))) return decline("addend", "what is added to the matmul before the gate is no bias");
    return 0;
  }
  if (!fuse::is_weight_matmul(g, p.matmul)) {
    if (g.op(p.matmul) == OpKind::MatMul) decline("layout", "the matmul is not one of rows with a matrix");
    return 0;
  }
  if (!ctx.target.native.test(static_cast<size_t>(fuse::kind_with_gate(g.op(p.matmul))))) return 0;
  if (p.shared.valid())
    return decline("multi_consumer", std::to_string(g.use_count(g.result(p.shared))) + " readers of what the gate reads");
  ctx.decisions.push_back(fused(g, "matmul_swiglu", n, p.members, 2 * bytes(g, g.operand(n, 0))));
  Builder b(g, nullptr, n);
  const ValueId bias = p.bias.valid() ? as_row(b, p.bias, p.biased) : ValueId();
  const ValueId y = fuse::with_gate(b, p.matmul, bias, g.attrs<SwiGLUAttrs>(n));
  merge_origins(g, g.def(y), p.members);
  replace(g, g.result(n), b.reshape(y, {g.dims(g.result(n)).begin(), g.dims(g.result(n)).end()}));
  return 1;
}

}  // namespace

PassResult fuse_matmul_swiglu(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedSwiGLU && is_float(g, g.result(n)))
        found += ctx.rewrite([&] { return fuse_matmuls(g, n, ctx); });
  });
  return {found > 0, {{"matmul_swiglu", found}}};
}

}  // namespace rlxc
