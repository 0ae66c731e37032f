// Folds a constant factor per column of a matmul, or per channel of a convolution (layer scale, an affine layer after a
// convolution), into weights and bias, computed at load time. Factors stay where a weight would leave the range of its type, or
// of f16 if the precision policy converts it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "eval/weight_value.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

// (matmul + bias) * scale.
struct Scaled {
  NodeId matmul;  // MatMul or Conv
  NodeId sum;     // Add of a bias, if there is one
  ValueId bias, scale;
  bool channels = false;  // convolution: factors along axis 1
};

// Returns whether the weight may be scaled at load time: it is not quantized.
bool foldable(const Graph& g, ValueId v) { return is_weight(g, v) && g.op(g.def(v)) != OpKind::Dequantize; }

std::optional<Scaled> match_scaled(const Graph& g, NodeId mul) {
  for (size_t i = 0; i < 2; ++i) {
    const ValueId y = g.operand(mul, i), scale = g.operand(mul, 1 - i);
    if (!g.has_one_use(y) || !is_weight(g, scale) || !same_type(g, y, g.result(mul))) continue;
    Scaled s{g.def(y), {}, {}, scale};
    const bool conv = g.op(s.matmul) == OpKind::Conv;
    if (g.op(s.matmul) == OpKind::Add) {
      s.sum = s.matmul;
      for (size_t k = 0; k < 2; ++k)
        if (const NodeId m = defining_op(g, g.operand(s.sum, k), OpKind::MatMul); m.valid()) {
          s.matmul = m;
          s.bias = g.operand(s.sum, 1 - k);
        }
      const ValueId p = g.result(s.matmul);
      if (!s.bias.valid() || !g.has_one_use(p) || !same_type(g, p, y) || !is_row(g, s.bias, y) || !foldable(g, s.bias)) continue;
    }
    if (!conv && g.op(s.matmul) != OpKind::MatMul) continue;
    if (!foldable(g, g.operand(s.matmul, 1)) || (!conv && g.rank(g.operand(s.matmul, 1)) != 2)) continue;
    if (conv && g.operand(s.matmul, 2).valid() && !foldable(g, g.operand(s.matmul, 2))) continue;
    s.channels = conv;
    if (conv ? per_channel(g, scale, y) : is_row(g, scale, y)) return s;
  }
  return std::nullopt;
}

struct NormalRange {
  double least, most;
};
NormalRange range_of(DType t, const PassOptions& o) {
  const auto f16_rule = [](const auto& rule) { return rule.second == DType::F16; };
  const bool narrow = o.precision == PrecisionPolicy::Custom
                          ? std::ranges::any_of(o.custom_precision.rules, f16_rule)
                          : o.precision >= PrecisionPolicy::F16 && o.precision <= PrecisionPolicy::AutoMixedConservative;
  if (t == DType::F16 || (t == DType::F32 && narrow)) return {0x1p-14, 65504};
  if (t == DType::F64) return {std::numeric_limits<double>::min(), std::numeric_limits<double>::max()};
  return {0x1p-126, t == DType::BF16 ? 0x1.FEp127 : 0x1.FFFFFEp127};
}

// The largest magnitude of each slice along the axis. NaN counts as infinite.
std::vector<double> largest_along(const TensorData& d, size_t axis) {
  int64_t inner = 1;
  for (size_t i = axis + 1; i < d.dims.size(); ++i) inner *= d.dims[i];
  const int64_t size = d.dims.empty() ? 1 : d.dims[axis];
  std::vector<double> out(static_cast<size_t>(size));
  for (int64_t i = 0; i < d.elements(); ++i) {
    const double x = std::fabs(element_as_double(d, d.splat ? 0 : i));
    double& most = out[static_cast<size_t>(i / inner % size)];
    most = std::max(most, x == x ? x : std::numeric_limits<double>::infinity());
  }
  return out;
}

// Whether factors so near to 1 leave weights of ordinary size in range.
bool is_mild(const TensorData& s, const NormalRange& range) {
  const bool wide = range.least < 0x1p-100;
  for (int64_t i = 0; i < (s.splat ? 1 : s.elements()); ++i) {
    const double size = std::fabs(element_as_double(s, i));
    if (!(size == 0 || (size >= (wide ? 0x1p-64 : 0x1p-6) && size <= (wide ? 0x1p64 : 1)))) return false;
  }
  return true;
}

// Whether the scaled weight and bias stay in range: no product overflows, and no slice of the weight becomes denormal as a whole,
// unless it was so before. Weights without contents are taken to stay in range, and so are large ones if the factors are mild: a
// compile does not read these otherwise.
bool stays_in_range(const Graph& g, const Scaled& m, size_t axis, const PassOptions& o) {
  const auto value = [&](ValueId v) { return v.valid() ? eval::weight_value(g.module(), g, v) : std::nullopt; };
  const ValueId w = g.operand(m.matmul, 1), bias = m.channels ? g.operand(m.matmul, 2) : m.bias;
  const auto s = value(m.scale);
  if (!s) return true;
  constexpr uint64_t kMostBytes = 1 << 20;
  const NormalRange range = range_of(g.dtype(w), o);
  if (const auto n = num_elements(g.type(w)); n && static_cast<uint64_t>(*n) * 4 > kMostBytes && is_mild(*s, range)) return true;
  const auto fits = [&](const TensorData& d, size_t along, double least) {
    const std::vector<double> most = largest_along(d, along);
    const auto count = static_cast<int64_t>(most.size());
    const int64_t factors = s->splat ? 1 : s->elements();
    for (int64_t i = 0; i < std::max(count, factors); ++i) {
      const double before = most[static_cast<size_t>(count == 1 ? 0 : i)];
      const double after = before * std::fabs(element_as_double(*s, factors == 1 ? 0 : i));
      if (!(after <= range.most) && !(after <= before)) return false;
      if (after > 0 && after < least && after < before) return false;
    }
    return true;
  };
  const auto weight = value(w), sum = value(bias);
  return (!weight || fits(*weight, axis, range.least)) && (!sum || fits(*sum, sum->dims.empty() ? 0 : sum->dims.size() - 1, 0));
}

// w * s along this axis of w.
ValueId scale_along(Builder& b, ValueId w, ValueId s, size_t axis) {
  std::vector<Dim> dims(b.graph().dims(w).size(), Dim(1));
  dims[axis] = b.graph().rank(s) == 0 ? Dim(1) : b.graph().dims(s)[0];
  const ValueId scaled = b.mul(w, b.reshape(s, dims));
  Graph& g = b.graph();
  if (scaled.valid()) g.set_node_name(g.def(scaled), label_symbol(g, g.def(w)));  // calibration records name it after the weight
  return scaled;
}

bool fold_into_weight(Graph& g, NodeId mul, const Scaled& m, size_t axis, PassContext& ctx) {
  Builder b(g, nullptr, mul);
  const NodeId p = m.matmul;
  const ValueId y = g.result(mul), w = g.operand(p, 1);
  ValueId r;
  if (m.channels) {
    const ValueId s = b.reshape(m.scale, {g.dims(y)[1]}), bias = g.operand(p, 2);
    r = b.create(OpKind::Conv, {g.operand(p, 0), scale_along(b, w, s, axis), bias.valid() ? b.mul(bias, s) : ValueId()},
                 g.attrs<ConvAttrs>(p));
  } else {
    const auto a = g.attrs<MatMulAttrs>(p);
    const ValueId s = as_row(b, m.scale, y);
    r = b.matmul(g.operand(p, 0), scale_along(b, w, s, axis), a.trans_a, a.trans_b);
    if (!r.valid()) return false;
    if (m.bias.valid()) {
      merge_origins(g, g.def(r), {&p, 1});
      r = b.add(r, b.mul(as_row(b, m.bias, y), s));
    }
  }
  if (!r.valid()) return false;
  const NodeId members[] = {p, mul};
  ctx.decisions.push_back(fused(g, "scale", mul, members, 2 * bytes(g, y)));
  const NodeId ends[] = {m.sum.valid() ? m.sum : p, mul};
  replace_group(g, ends, y, r);
  return true;
}

}  // namespace

PassResult fold_scale(Module& m, PassContext& ctx) {
  int64_t folded = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::Mul || !is_float(g, g.result(n))) continue;
      const auto s = match_scaled(g, n);
      if (!s) continue;
      const size_t axis = s->channels || g.attrs<MatMulAttrs>(s->matmul).trans_b ? 0 : 1;
      if (!stays_in_range(g, *s, axis, ctx.options)) decline(ctx, g, "scale", n, "weight_range", "the product with the weight");
      else folded += ctx.rewrite([&] { return fold_into_weight(g, n, *s, axis, ctx); });
    }
  });
  return {folded > 0, {{"scale", folded}}};
}

}  // namespace rlxc
