// Quantizes the result of an attention, a rotary embedding, an interpolation, or a softmax of an inner axis where it is stored.
// In a graph with Q/DQ pairs around matmuls alone these are the nodes of a layer whose floats would be written, and read again,
// to be rounded.
//   quantize(attention(q, k, v), s, z)  ->  attention(q, k, v, _, s, z)
//   quantize(rope(x, cos, sin) * f, s, z)  ->  rope(x, cos, sin, _, f, s, z)
//   quantize(resize(x), s, z)  ->  resize(x, s, z)
// A result of the graph that dequantizes such a result, of other ops than rope, is computed by the same node:
//   dequantize(resize(x, s, z), t, z)  ->  resize(x, s, z, t)
// Declines if others read the floats (multi_consumer). For targets with kernels of integers (QAttention). Runs before Quantize
// becomes steps. O(nodes).
#include <algorithm>
#include <optional>

#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kRoundedResult = "rounded_result";

bool is_number(const Graph& g, ValueId v, DType t) { return v.valid() && g.dtype(v) == t && num_elements(g.type(v)) == 1; }

// Whether the node rounds f32 to 8 bits by one scale.
bool rounds_to_codes(const Graph& g, NodeId n) {
  const DType to = g.dtype(g.result(n));
  const ValueId zero = g.operand(n, 2);
  return g.op(n) == OpKind::Quantize && g.attrs<QuantAttrs>(n).block == 0 && is_int8(to) &&
         g.dtype(g.operand(n, 0)) == DType::F32 && is_number(g, g.operand(n, 1), DType::F32) &&
         (!zero.valid() || is_number(g, zero, to));
}

// The operand of the node that is the scale of its result; none if its kernel quantizes none. Softmax regions are for the last
// axis.
std::optional<size_t> scale_operand(const Graph& g, NodeId n) {
  switch (g.op(n)) {
    case OpKind::Attention: return kAttentionScale;
    case OpKind::Rope: return kRopeFactor + 1;
    case OpKind::Softmax:
      return g.attrs<AxisAttrs>(n).axis + 1 < g.rank(g.result(n)) ? std::optional(kResultScale) : std::nullopt;
    case OpKind::Resize: return g.attrs<ResizeAttrs>(n).mode == ResizeMode::Nearest ? std::nullopt : std::optional(kResultScale);
    default: return std::nullopt;
  }
}

bool take(Graph& g, NodeId n, PassContext& context) {
  if (!rounds_to_codes(g, n)) return false;
  ValueId y = g.operand(n, 0), factor;
  std::vector<NodeId> members{n};
  if (const NodeId mul = defining_op(g, y, OpKind::Mul); mul.valid())
    for (const size_t i : {size_t{0}, size_t{1}})
      if (is_number(g, g.operand(mul, 1 - i), DType::F32) && defining_op(g, g.operand(mul, i), OpKind::Rope).valid() &&
          same_dims(g, g.operand(mul, i), g.result(mul)) && g.has_one_use(g.result(mul))) {
        y = g.operand(mul, i);
        factor = g.operand(mul, 1 - i);
        members.push_back(mul);
        break;
      }
  const NodeId source = g.def(y);
  if (!source.valid()) return false;
  const auto scale = scale_operand(g, source);
  if (!scale || !context.target.native.test(static_cast<size_t>(g.op(source)))) return false;
  const bool rope = g.op(source) == OpKind::Rope;
  const auto refuse = [&](std::string_view reason, std::string detail) {
    return decline_end(context, g, kRoundedResult, source, reason, std::move(detail));
  };
  if (!g.has_one_use(y)) return refuse("multi_consumer", std::to_string(g.use_count(y)) + " readers of the result");
  const size_t first = *scale - rope;
  if (g.operand(source, first).valid() || g.operand(source, *scale).valid()) return false;  // quantized already
  members.push_back(source);
  Builder b(g, nullptr, n);
  std::vector<ValueId> operands(g.operands(source).begin(), g.operands(source).end());
  operands.resize(first);
  const auto scalar_of = [&](ValueId v) { return v.valid() ? b.reshape(v, {}) : v; };
  if (rope) operands.push_back(scalar_of(factor));
  operands.push_back(scalar_of(g.operand(n, 1)));
  const ValueId zero = g.operand(n, 2);
  operands.push_back(zero.valid() ? scalar_of(zero) : b.scalar(g.dtype(g.result(n)), 0));
  const ValueId codes = b.create(g.op(source), operands, g.module().attrs[g.attr_id(source)]);
  if (!codes.valid()) return false;
  context.decisions.push_back(fused(g, kRoundedResult, source, members, 2 * bytes(g, y)));
  replace_group(g, members, g.result(n), codes);
  return true;
}

// Whether the node dequantizes 8 bits to f32 by one scale, for the caller of the graph alone.
bool dequantizes_output(const Graph& g, NodeId n) {
  const ValueId y = g.result(n);
  return g.op(n) == OpKind::Dequantize && g.attrs<QuantAttrs>(n).block == 0 && g.dtype(y) == DType::F32 &&
         is_number(g, g.operand(n, 1), DType::F32) &&
         std::ranges::all_of(g.uses(y), [&](const Graph::Use& use) { return use.user == g.terminator(); });
}

bool take_back(Graph& g, NodeId n, PassContext& context) {
  if (!dequantizes_output(g, n)) return false;
  const ValueId codes = g.operand(n, 0);
  const NodeId source = g.def(codes);
  const auto scale = source.valid() && g.op(source) != OpKind::Rope ? scale_operand(g, source) : std::nullopt;
  if (!scale || !g.operand(source, *scale).valid() || g.operand(source, *scale + 2).valid()) return false;
  if (!g.has_one_use(codes)) return false;
  const ValueId zero = g.operand(n, 2), own = g.operand(source, *scale + 1);
  if (zero.valid() ? !same_number(g, zero, own) : !is_absent_or_zero(g, own)) return false;
  Builder b(g, nullptr, n);
  std::vector<ValueId> operands(g.operands(source).begin(), g.operands(source).end());
  operands.resize(*scale + 2);
  operands.push_back(b.reshape(g.operand(n, 1), {}));
  const ValueId y = b.create(g.op(source), operands, g.module().attrs[g.attr_id(source)]);
  if (!y.valid()) return false;
  const NodeId members[] = {n, source};
  context.decisions.push_back(fused(g, kRoundedResult, source, members, 2 * bytes(g, codes)));
  replace_group(g, members, g.result(n), y);
  return true;
}

}  // namespace

PassResult fuse_rounded_result(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.integer_fusions) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Quantize) found += context.rewrite([&] { return take(g, n, context); });
    for (NodeId n : g.nodes()) found += context.rewrite([&] { return take_back(g, n, context); });
  });
  return {found > 0, {{"rounded_result", found}}};
}

}  // namespace rlxc
