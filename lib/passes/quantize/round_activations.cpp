// Chooses the left operand of matmuls with quantized weights by options.int8_activations: rows rounded to 8 bits with a scale per
// block of the weight, or unrounded values. Requires integer weights and blocks that divide the contracted axis; declines are
// Decisions ("int8_activations"). O(nodes).
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kInt8Activations = "int8_activations";

bool choose_rows(Graph& g, NodeId n, PassContext& context, bool int8) {
  DequantMatMulAttrs a = g.attrs<DequantMatMulAttrs>(n);
  if (a.int8_x == int8) return false;
  const ValueId w = g.operand(n, 1);
  const auto k = size_at(g, w, a.trans_b);
  if (int8 && !is_integer(g.dtype(w)))
    return decline(context, g, kInt8Activations, n, "float_values", std::string(name(g.dtype(w))));
  if (int8 && (!k || (a.block != 0 && *k % a.block != 0)))
    return decline(context, g, kInt8Activations, n, "block", "the summed axis is no multiple of " + std::to_string(a.block));
  a.int8_x = int8;
  g.set_attrs(n, g.module().attrs.intern(a));
  context.precision.push_back({g.label(n).bytes(), std::string(name(g.dtype(g.operand(n, 0)))), int8 ? "i8" : "float",
                               int8 ? "rows of the matmul, one scale for each block" : "rows of the matmul"});
  return true;
}

}  // namespace

PassResult round_activations(Module& m, PassContext& context) {
  int64_t changed = 0, seen = 0;
  if (!context.options.int8_activations) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::DequantMatMul) continue;
      ++seen;
      changed += context.rewrite([&] { return choose_rows(g, n, context, *context.options.int8_activations); });
    }
  });
  if (seen == 0 && *context.options.int8_activations)
    context.diagnostics.warning(Code::NoGain,
                                "--activations int8 changes nothing: no matmul has quantized weights and float rows", {},
                                "--weights int8 or int4 quantizes constant weights");
  return {changed > 0, {{"matmuls", changed}}};
}

}  // namespace rlxc
