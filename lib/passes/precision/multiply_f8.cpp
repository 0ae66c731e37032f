// Multiplies 8-bit floats where the target has matrix units for them, instead of the numbers that they stand for:
//   matmul(a * s, w * t)  ->  dequant_matmul(a, w, s * t)
// with a and w of one 8-bit type, a scale per tensor for a and per tensor or column for w, a matrix. Matches Dequantize,
// Mul(Cast) and DequantMatMul without blocks. Declines are Decisions ("f8_matmul"). O(nodes).
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kF8Matmul = "f8_matmul";

// A value q * scale. `axis`: of the scales, unless there is one.
struct Scaled {
  ValueId q, scale;
  std::optional<int64_t> axis;
};

class Multiplier {
 public:
  Multiplier(Graph& g, PassContext& context) : g_(g), context_(context) {}

  bool visit(NodeId n) {
    const auto x = scaled(g_.operand(n, 0));
    if (!x || g_.dtype(g_.result(n)) == DType::F64) return false;
    const bool coded = g_.op(n) == OpKind::DequantMatMul;
    const bool trans_b = coded ? g_.attrs<DequantMatMulAttrs>(n).trans_b : g_.attrs<MatMulAttrs>(n).trans_b;
    const auto w = coded ? weight(n) : scaled(g_.operand(n, 1));
    if (!w || g_.dtype(w->q) != g_.dtype(x->q)) return refuse(n, "other_operand", "the second operand is not of its type");
    if (!coded && g_.attrs<MatMulAttrs>(n).trans_a) return refuse(n, "layout", "the first operand is transposed");
    if (g_.rank(w->q) != 2) return refuse(n, "rank", "the second operand is not a matrix");
    if (x->axis) return refuse(n, "scale_per_axis", "first operand");
    if (w->axis && *w->axis != !trans_b) return refuse(n, "scale_per_contracted_axis", "second operand");
    Builder b(g_, nullptr, n);
    std::vector<Dim> sizes(2, Dim(1));
    if (w->axis) sizes[!trans_b] = g_.dims(w->q)[!trans_b];
    const ValueId of_w = b.reshape(b.cast(w->scale, DType::F32), sizes), of_x = b.reshape(b.cast(x->scale, DType::F32), {});
    const ValueId y = b.create(OpKind::DequantMatMul, {x->q, w->q, b.mul(of_w, of_x)}, DequantMatMulAttrs{trans_b, 0, {}});
    const ValueId cast = y.valid() ? b.cast(y, g_.dtype(g_.result(n))) : y;
    if (!cast.valid()) return false;
    const NodeId members[] = {n};
    context_.decisions.push_back(fused(g_, kF8Matmul, n, members, 3 * (bytes(g_, x->q) + (coded ? 0 : bytes(g_, w->q)))));
    replace_group(g_, members, g_.result(n), cast);
    return true;
  }

 private:
  bool refuse(NodeId n, std::string_view reason, std::string detail) {
    return decline(context_, g_, kF8Matmul, n, reason, std::move(detail));
  }
  bool multiplies(ValueId q) const { return context_.target.multiplies.test(static_cast<size_t>(g_.dtype(q))); }
  bool is_one(ValueId v) const { return num_elements(g_.type(v)) == 1; }

  // Returns v as 8-bit floats that the target multiplies, and their scale.
  std::optional<Scaled> scaled(ValueId v) const {
    NodeId n = g_.def(v);
    if (g_.op(n) == OpKind::Cast && is_float(g_, g_.operand(n, 0))) n = g_.def(g_.operand(n, 0));
    if (g_.op(n) == OpKind::Dequantize) {
      const auto& a = g_.attrs<QuantAttrs>(n);
      const ValueId q = g_.operand(n, 0), scale = g_.operand(n, 1);
      if (!multiplies(q) || a.block != 0 || !is_absent_or_zero(g_, g_.operand(n, 2))) return std::nullopt;
      return Scaled{q, scale, is_one(scale) ? std::nullopt : std::optional(a.axis)};
    }
    if (g_.op(n) != OpKind::Mul) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const NodeId cast = defining_op(g_, g_.operand(n, i), OpKind::Cast);
      if (!cast.valid() || !multiplies(g_.operand(cast, 0)) || !is_one(g_.operand(n, 1 - i))) continue;
      return Scaled{g_.operand(cast, 0), g_.operand(n, 1 - i), std::nullopt};
    }
    return std::nullopt;
  }

  // The same of the weight of a DequantMatMul.
  std::optional<Scaled> weight(NodeId n) const {
    const auto& a = g_.attrs<DequantMatMulAttrs>(n);
    const bool plain = a.block == 0 && !a.gated && !a.act.has && !a.int8_x && g_.operands(n).size() < 5;
    if (!plain || !is_absent_or_zero(g_, g_.operand(n, 3))) return std::nullopt;
    const ValueId scale = g_.operand(n, 2);
    return Scaled{g_.operand(n, 1), scale, is_one(scale) ? std::nullopt : std::optional<int64_t>(!a.trans_b)};
  }

  Graph& g_;
  PassContext& context_;
};

}  // namespace

PassResult multiply_f8(Module& m, PassContext& context) {
  if (context.target.multiplies.none() || !context.target.native.test(static_cast<size_t>(OpKind::DequantMatMul))) return {};
  int64_t made = 0;
  each_graph(m, [&](Graph& g) {
    Multiplier multiplier(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::MatMul || g.op(n) == OpKind::DequantMatMul)
        made += context.rewrite([&] { return multiplier.visit(n); });
  });
  return {made > 0, {{"f8_matmul", made}}};
}

}  // namespace rlxc
