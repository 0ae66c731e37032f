// Folds constant padding of spatial axes into the padding of the convolution, also that of codes by their zero point, and an
// added per-channel weight into its bias.
#include <array>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "passes/quantize/roundings.h"

namespace rlxc {
namespace {

using namespace match;

constexpr int64_t kMaxPad = int64_t{1} << 20;

// Returns whether the pad fills spatial axes alone, by known sizes, with `zero`, or with 0 if that is absent, and adds it to
// `conv`.
bool pad_fits(const Graph& g, NodeId pad, ValueId zero, ConvAttrs* conv) {
  const auto& a = g.attrs<PadAttrs>(pad);
  const auto number = [&](ValueId v) { return v.valid() ? scalar(g, v) : std::optional(0.0); };
  const auto fill = number(g.operand(pad, 1));
  if (a.mode != PadMode::Constant || !fill || fill != number(zero)) return false;
  DimTable& t = g.module().dims;
  for (size_t i = 0; i < a.before.size(); ++i) {
    const auto before = t.constant_value(a.before[i]), after = t.constant_value(a.after[i]);
    if (!before || !after || *before < 0 || *after < 0 || *before > kMaxPad || *after > kMaxPad ||
        (i < 2 && *before + *after > 0))
      return false;
    if (i < 2) continue;
    conv->pads_begin[i - 2] += *before;
    conv->pads_end[i - 2] += *after;
  }
  return true;
}

bool take_pad(Graph& g, NodeId n, PassContext& ctx) {
  const NodeId codes = defining_op(g, g.operand(n, 0), OpKind::Dequantize);
  const bool coded = codes.valid() && rounds_by_one(g, codes);
  const NodeId pad = defining_op(g, g.operand(coded ? codes : n, 0), OpKind::Pad);
  ConvAttrs a = g.attrs<ConvAttrs>(n);
  if (!pad.valid() || !pad_fits(g, pad, coded ? g.operand(codes, 2) : ValueId(), &a)) return false;
  const NodeId members[] = {pad, n};
  ctx.decisions.push_back(fused(g, "conv_pad", n, members, 2 * bytes(g, g.result(pad))));
  g.set_attrs(n, g.module().attrs.intern(a));
  ValueId x = g.operand(pad, 0);
  if (coded) {
    x = Builder(g, nullptr, n)
            .create(OpKind::Dequantize, {x, g.operand(codes, 1), g.operand(codes, 2)}, g.attrs<QuantAttrs>(codes));
    merge_origins(g, g.def(x), std::array{codes});
  }
  g.set_operand(n, 0, x);
  erase_dead(g, coded ? codes : pad);
  return true;
}

bool take_bias(Graph& g, NodeId n, PassContext& ctx) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId y = g.operand(n, i), v = g.operand(n, 1 - i);
    const NodeId conv = g.def(y);
    if ((g.op(conv) != OpKind::Conv && g.op(conv) != OpKind::ConvTranspose) || !g.has_one_use(y) || !per_channel(g, v, y))
      continue;
    const ValueId first = g.operand(conv, 2);
    if (first.valid() && !is_weight(g, first)) continue;
    const NodeId members[] = {conv, n};
    ctx.decisions.push_back(fused(g, "conv_bias", n, members, 2 * bytes(g, y)));
    Builder b(g, nullptr, n);
    const ValueId row = b.reshape(v, {g.dims(y)[1]}), bias = first.valid() ? b.add(first, row) : row;
    replace(g, g.result(n), b.create(g.op(conv), {g.operand(conv, 0), g.operand(conv, 1), bias}, g.attrs<ConvAttrs>(conv)));
    return true;
  }
  return false;
}

}  // namespace

PassResult fold_conv_bias(Module& m, PassContext& ctx) {
  int64_t pads = 0, biases = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) {
      if (g.op(n) == OpKind::Conv) pads += ctx.rewrite([&] { return take_pad(g, n, ctx); });
      else if (g.op(n) == OpKind::Add) biases += ctx.rewrite([&] { return take_bias(g, n, ctx); });
    }
  });
  return {pads + biases > 0, {{"pad", pads}, {"bias", biases}}};
}

}  // namespace rlxc
