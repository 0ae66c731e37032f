#include "passes/fuse/fuse_matmul_swiglu.h"

#include "passes/fuse/weight_product.h"

namespace rlxc {
namespace {

using namespace match;

int64_t visit(Graph& g, NodeId n, PassContext& ctx) {
  const ValueId packed = g.operand(n, 0);
  const NodeId product = g.def(packed);
  const auto decline = [&](std::string_view reason, std::string detail) {
    ctx.decisions.push_back(declined(g, "matmul_swiglu", n, reason, std::move(detail)));
    return 0;
  };
  if (g.op(product) == OpKind::Add) {
    for (ValueId v : g.operands(product))
      if (fuse::is_weight_product(g, g.def(v))) return decline("biased", "a bias is added to the product before the gate");
    return 0;
  }
  if (!fuse::is_weight_product(g, product)) {
    if (g.op(product) == OpKind::MatMul) decline("layout", "the product is not one of rows with a matrix");
    return 0;
  }
  if (!ctx.target.native.test(static_cast<size_t>(fuse::kind_with_gate(g.op(product))))) return 0;
  if (!g.has_one_use(packed)) return decline("multi_consumer", std::to_string(g.use_count(packed)) + " readers of the product");
  const NodeId members[] = {product, n};
  ctx.decisions.push_back(fused(g, "matmul_swiglu", n, members, 2 * bytes(g, packed)));
  Builder b(g, nullptr, n);
  replace_group(g, members, g.result(n), fuse::with_gate(b, product, g.attrs<SwiGLUAttrs>(n)));
  return 1;
}

}  // namespace

PassResult fuse_matmul_swiglu(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedSwiGLU && is_float(g, g.result(n))) found += ctx.rewrite([&] { return visit(g, n, ctx); });
  });
  return {found > 0, {{"matmul_swiglu", found}}};
}

}  // namespace rlxc
