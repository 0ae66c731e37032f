#include "analysis/cost.h"

#include <algorithm>

#include "analysis/views.h"
#include "ir/region.h"

namespace rlxc {
namespace {

constexpr double kNormFlops = 6;      // an element of a norm: three passes of two
constexpr double kDivisionFlops = 8;  // an element of a division or a root
constexpr double kSeriesFlops = 48;   // an element of what is computed by a series or a table

double elements(const Graph& g, ValueId v) { return static_cast<double>(num_elements(g.type(v)).value_or(0)); }
double size_of(Dim d) { return d.is_static() ? static_cast<double>(d.size()) : 0; }

double contraction_size(const Graph& g, NodeId n) {
  const auto a = g.dims(g.operand(n, 0)), b = g.dims(g.operand(n, 1));
  switch (g.op(n)) {
    case OpKind::MatMul: return size_of(a[a.size() - (g.attrs<MatMulAttrs>(n).trans_a ? 2 : 1)]);
    case OpKind::FusedMatMulBiasAct:
    case OpKind::Linear:
    case OpKind::LinearFused: return size_of(a[a.size() - (g.attrs<FusedMatMulAttrs>(n).trans_a ? 2 : 1)]);
    case OpKind::FusedMatMulSwiGLU: return 2 * size_of(a.back());  // two columns for each of the result
    case OpKind::DequantMatMul: return (g.attrs<DequantMatMulAttrs>(n).gated ? 2 : 1) * size_of(a.back());
    case OpKind::GroupedMatMul:
    case OpKind::QMatMul:
    case OpKind::FusedQMatMul: return size_of(a.back());
    case OpKind::DotGeneral: {
      double k = 1;
      for (int64_t axis : g.attrs<DotGeneralAttrs>(n).lhs_contracting) k *= size_of(a[static_cast<size_t>(axis)]);
      return k;
    }
    case OpKind::Conv:
    case OpKind::FusedConvBiasAct:
    case OpKind::QConv:
    case OpKind::FusedQConv: {
      double k = 1;
      for (size_t i = 1; i < b.size(); ++i) k *= size_of(b[i]);
      return k;
    }
    default: return 0;
  }
}

double flops(const Graph& g, NodeId n) {
  const OpKind op = g.op(n);
  const double out = g.result_count(n) ? elements(g, g.result(n)) : 0;
  if (op == OpKind::Attention) {  // two products over the keys
    const auto& a = g.attrs<AttentionAttrs>(n);
    const auto k = g.dims(g.operand(n, 1));
    const double keys = size_of(a.layout == AttentionLayout::BHSD ? k[a.k_transposed ? 3 : 2] : k[1]);
    return 4 * elements(g, g.operand(n, 0)) * keys;
  }
  if (op == OpKind::ConvTranspose || op == OpKind::FusedConvTransposeBiasAct) {
    double taps = 1;
    const auto w = g.dims(g.operand(n, 1));
    for (size_t i = 1; i < w.size(); ++i) taps *= size_of(w[i]);
    return 2 * elements(g, g.operand(n, 0)) * taps;
  }
  if (has_trait(op, kBlas)) return 2 * out * contraction_size(g, n);
  if (op == OpKind::ElementwiseRegion) return out * steps_flops(g.attrs<RegionAttrs>(n).steps);
  if (op == OpKind::NormRegion) return out * steps_flops(g.attrs<NormRegionAttrs>(n).steps);
  if (op == OpKind::ReduceRegion) {
    const auto& a = g.attrs<ReduceRegionAttrs>(n);
    const std::vector<Dim> whole = whole_dims(g, n);
    double rows = 1;
    for (size_t i = 0; i < whole.size(); ++i)
      if (std::ranges::find(a.axes, static_cast<int64_t>(i)) == a.axes.end()) rows *= size_of(whole[i]);
    return reduce_region_flops(a.steps, varying_steps(g, n), size_of(g.module().dims.product(whole)), rows);
  }
  if (has_trait(op, kElementwise)) return out * element_flops(op);
  if (op == OpKind::Softmax || op == OpKind::LogSoftmax) return out * element_flops(op);
  if (has_trait(op, kReduction)) return elements(g, g.operand(n, 0)) * (has_trait(op, kNormTrait) ? kNormFlops : 1);
  return 0;
}

}  // namespace

Cost node_cost(const Graph& g, NodeId n) {
  Cost c;
  if (has_trait(g.op(n), kLeaf | kTerminator) || view_of(g, n)) return c;
  const auto bytes = [&](ValueId v) { return v.valid() ? static_cast<int64_t>(byte_size(g.type(v)).value_or(0)) : 0; };
  c.flops = flops(g, n);
  for (ValueId v : g.operands(n)) c.bytes_read += bytes(v);
  if (g.op(n) == OpKind::GroupedMatMul) {  // no more matrices than rows
    const double used = std::min(1.0, size_of(g.dims(g.operand(n, 0))[0]) / std::max(1.0, size_of(g.dims(g.operand(n, 1))[0])));
    c.bytes_read -= static_cast<int64_t>((1 - used) * static_cast<double>(bytes(g.operand(n, 1))));
  }
  for (size_t r = 0; r < g.result_count(n); ++r) c.bytes_written += bytes(g.result(n, r));
  if (has_trait(g.op(n), kMovement) && g.op(n) != OpKind::Concat)
    c.bytes_read = std::min(c.bytes_read, c.bytes_written * 2);  // selects
  return c;
}

bool is_cheap(OpKind op) {
  using enum OpKind;
  switch (op) {
    case Neg:
    case Abs:
    case Sign:
    case Relu:
    case Not:
    case BitNot:
    case Cast:
    case Add:
    case Sub:
    case Mul:
    case Max:
    case Min:
    case And:
    case Or:
    case Xor:
    case BitAnd:
    case BitOr:
    case BitXor:
    case Shl:
    case Shr:
    case Where:
    case Clamp:
    case LeakyRelu:
    case ThresholdedRelu:
    case Floor:
    case Ceil:
    case Round:
    case Fma:
    case IsNan:
    case IsInf:
    case PRelu: return true;
    default: return has_trait(op, kCompare);
  }
}

double element_flops(OpKind op) {
  if (is_cheap(op) || op == OpKind::Reduce) return 1;
  if (has_trait(op, kNormTrait)) return kNormFlops;
  const bool divides = op == OpKind::Div || op == OpKind::Recip || op == OpKind::Sqrt || op == OpKind::Rsqrt;
  return divides ? kDivisionFlops : kSeriesFlops;
}

double steps_flops(std::span<const RegionStep> steps) {
  double sum = 0;
  for (const RegionStep& s : steps) sum += element_flops(s.op);
  return sum;
}

double reduce_region_flops(std::span<const RegionStep> steps, const std::vector<bool>& varying, double elements, double rows) {
  double sum = 0;
  for (const RowWalk& walk : row_walks(steps, varying)) {
    for (size_t i = 0; i < steps.size(); ++i)
      if (walk.steps[i]) sum += element_flops(steps[i].op) * elements;
    sum += static_cast<double>(walk.reductions.size()) * elements;
  }
  for (size_t i = 0; i < steps.size(); ++i)
    if (!varying[i] && !is_core(steps[i])) sum += element_flops(steps[i].op) * rows;
  return sum;
}

double work_time_ns(const Cost& c, const Machine& m, double rows) {
  const double share = std::clamp(rows / m.units, 1 / m.units, 1.0);
  const double compute = c.flops / (m.peak_gflops * share);
  const double traffic = static_cast<double>(c.bytes_read + c.bytes_written) / (m.memory_gbps * share);
  return std::max(compute, traffic);
}

double launch_time_ns(const Cost& c, const Machine& m, double rows) { return m.launch_ns + work_time_ns(c, m, rows); }

}  // namespace rlxc
