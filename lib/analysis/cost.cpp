#include "analysis/cost.h"

#include <algorithm>

#include "analysis/views.h"
#include "ir/op_rules.h"
#include "ir/region.h"
#include "support/saturate.h"

namespace rlxc {
namespace {

constexpr double kNormFlops = 6;      // per element of a norm: three passes of two flops
constexpr double kDivisionFlops = 8;  // per element of a division or a root
constexpr double kSeriesFlops = 48;   // per element of a function computed by a series or a table

// Sizes of dims: symbols that are not bound make them 0.
class Sizes {
 public:
  Sizes(const Graph& g, const DimBindings* bound) : dims_(g.module().dims), bound_(bound) {}

  double operator()(Dim d) const {
    if (d.is_static()) return static_cast<double>(d.size());
    return bound_ ? static_cast<double>(dims_.evaluate(d, *bound_).value_or(0)) : 0;
  }
  double elements(const Type& t) const {
    if (!bound_ || t.is_static()) return static_cast<double>(num_elements(t).value_or(0));
    double n = t.ranked ? 1 : 0;
    for (Dim d : t.dims) n *= (*this)(d);
    return n;
  }
  int64_t bytes(const Type& t) const {
    constexpr uint64_t kMost = uint64_t{1} << 47;  // more is no tensor; sums over all operands of a node fit
    if (!bound_ || t.is_static()) return static_cast<int64_t>(std::min<uint64_t>(byte_size(t).value_or(0), kMost));
    return saturating_cast<int64_t>(std::min(elements(t) * bits(t.dtype) / 8, static_cast<double>(kMost)));
  }

 private:
  const DimTable& dims_;
  const DimBindings* bound_;
};

// Length of the sum behind each result element of a matmul or convolution. Symbolic dims count as 0.
double contraction_size(const Graph& g, NodeId n, const Sizes& size_of) {
  const auto a = g.dims(g.operand(n, 0)), b = g.dims(g.operand(n, 1));
  double size = 1;
  const auto all_but_first = [&](std::span<const Dim> d) {
    for (Dim v : d.subspan(1)) size *= size_of(v);
    return size;
  };
  if (cost_rule(g.op(n)) != CostRule::Matmul) return all_but_first(b);
  switch (g.op(n)) {
    case OpKind::MatMul: return size_of(a[a.size() - (g.attrs<MatMulAttrs>(n).trans_a ? 2 : 1)]);
    case OpKind::FusedMatMulBiasAct: return size_of(a[a.size() - (g.attrs<FusedMatMulAttrs>(n).trans_a ? 2 : 1)]);
    case OpKind::FusedMatMulSwiGLU: return 2 * size_of(a.back());  // two columns per result column
    case OpKind::DequantMatMul: return (g.attrs<DequantMatMulAttrs>(n).gated ? 2 : 1) * size_of(a.back());
    case OpKind::QAttention: return 2 * size_of(b.back());  // two matmuls of heads as wide as their values
    case OpKind::DotGeneral:
      for (int64_t axis : g.attrs<DotGeneralAttrs>(n).lhs_contracting) size *= size_of(a[static_cast<size_t>(axis)]);
      return size;
    default: return size_of(a.back());
  }
}

double program_flops(const Graph& g, NodeId n, double out, const Sizes& size_of) {
  if (g.op(n) == OpKind::ElementwiseRegion || g.op(n) == OpKind::NormRegion)
    return out * steps_flops(g.attrs<FusionAttrs>(n).steps);
  if (g.op(n) == OpKind::ConcatRegion) {
    const auto& c = g.attrs<ConcatRegionAttrs>(n);  // a step belongs to one part, or to the rows that are reduced
    double of_rows = 0;
    for (const RegionStep& s : c.steps) {
      if (!is_core(s)) continue;
      of_rows += element_flops(s.op);
      if (!is_step(s.args[0])) continue;
      const std::vector<bool> needed = needed_steps(c.steps, s.args[0] & ~RegionStep::kStep);
      for (size_t i = 0; i < needed.size(); ++i)
        if (needed[i]) of_rows += element_flops(c.steps[i].op);
    }
    return out * (of_rows + steps_flops(c.steps) * static_cast<double>(c.results) / static_cast<double>(c.parts.size()));
  }
  const auto& a = g.attrs<FusionAttrs>(n);
  const std::vector<int64_t>& axes = reduced_axes(a.steps);
  const std::vector<Dim> whole = whole_dims(g, n);
  double rows = 1;
  for (size_t i = 0; i < whole.size(); ++i)
    if (std::ranges::find(axes, static_cast<int64_t>(i)) == axes.end()) rows *= size_of(whole[i]);
  return reduce_region_flops(a.steps, varying_steps(g, n), size_of(g.module().dims.product(whole)), rows);
}

double flops(const Graph& g, NodeId n, const Sizes& size_of) {
  const OpKind op = g.op(n);
  const double out = g.result_count(n) ? size_of.elements(g.type(g.result(n))) : 0;
  switch (cost_rule(op)) {
    case CostRule::Free: return 0;
    case CostRule::Cheap:
    case CostRule::Division:
    case CostRule::Series: return out * element_flops(op);
    case CostRule::Norm:
    case CostRule::Reduction: return size_of.elements(g.type(g.operand(n, 0))) * element_flops(op);
    case CostRule::Program: return program_flops(g, n, out, size_of);
    case CostRule::Matmul:
    case CostRule::Conv: return 2 * out * contraction_size(g, n, size_of);
    case CostRule::ConvTranspose: return 2 * size_of.elements(g.type(g.operand(n, 0))) * contraction_size(g, n, size_of);
    case CostRule::Attention: {  // two matmuls over the keys
      const auto& a = g.attrs<AttentionAttrs>(n);
      const auto k = g.dims(g.operand(n, 1));
      const double keys = size_of(a.layout == AttentionLayout::BHSD ? k[a.k_transposed ? 3 : 2] : k[1]);
      return 4 * size_of.elements(g.type(g.operand(n, 0))) * keys;
    }
  }
  return 0;
}

}  // namespace

Cost node_cost(const Graph& g, NodeId n, const DimBindings* sizes) {
  const Sizes size_of(g, sizes);
  Cost c;
  if (has_trait(g.op(n), kLeaf | kTerminator) || view_of(g, n)) return c;
  const auto bytes = [&](ValueId v) { return v.valid() ? size_of.bytes(g.type(v)) : 0; };
  c.flops = flops(g, n, size_of);
  for (ValueId v : g.operands(n)) c.bytes_read += bytes(v);
  if (g.op(n) == OpKind::GroupedMatMul) {  // reads at most one matrix per row
    const double used = std::min(1.0, size_of(g.dims(g.operand(n, 0))[0]) / std::max(1.0, size_of(g.dims(g.operand(n, 1))[0])));
    c.bytes_read -= static_cast<int64_t>((1 - used) * static_cast<double>(bytes(g.operand(n, 1))));
  }
  for (size_t r = 0; r < g.result_count(n); ++r) c.bytes_written += bytes(g.result(n, r));
  if (has_trait(g.op(n), kMovement) && g.op(n) != OpKind::Concat)
    c.bytes_read = std::min(c.bytes_read, c.bytes_written * 2);  // a slice or gather does not read the whole operand
  return c;
}

double element_flops(OpKind op) {
  switch (cost_rule(op)) {
    case CostRule::Cheap:
    case CostRule::Reduction: return 1;
    case CostRule::Norm: return kNormFlops;
    case CostRule::Division: return kDivisionFlops;
    default: return kSeriesFlops;
  }
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
  const auto bytes = static_cast<double>(c.bytes_read + c.bytes_written);
  constexpr double kFlopsOfByte = 64;  // of a matmul, whose tasks take as long as reading so many bytes
  if (m.unit_bytes > 0) rows = std::min(rows, std::max(bytes, c.flops / kFlopsOfByte) / m.unit_bytes);
  const double share = std::clamp(rows / m.units, 1 / m.units, 1.0);
  const double compute = c.flops / (m.peak_gflops * share);
  const double traffic = bytes / (m.memory_gbps * share);
  return std::max(compute, traffic);
}

double launch_time_ns(const Cost& c, const Machine& m, double rows) { return m.launch_ns + work_time_ns(c, m, rows); }

}  // namespace rlxc
