#include "codegen/overwrite.h"

#include <algorithm>
#include <vector>

#include "ir/region.h"
#include "kernel/builders/common.h"

namespace rlxc::codegen {
namespace {

bool always(const Graph&, NodeId, size_t) { return true; }

// The sum is read back as it was stored, not added up once more.
bool stores_exact_sum(const Graph& g, NodeId n, size_t) {
  return g.dtype(g.result(n, 1)) == kernel::compute_dtype(g.dtype(g.operand(n, 0)));
}

// Kernels of single channels on threads write the last vector of a row over the end of the one before.
bool sums_channels(const Graph& g, NodeId n, size_t) {
  return g.attrs<FusedConvAttrs>(n).conv.groups == 1 || g.dims(g.operand(n, 1))[1] != Dim(1);
}

// What is normalised is stored before the steps that follow read their operands, and read back if it was not rounded.
bool serves_no_later_step(const Graph& g, NodeId n, size_t operand) {
  const auto& steps = g.attrs<NormRegionAttrs>(n).steps;
  const size_t norm = last_norm_step(steps);
  const uint16_t from = steps[norm].args[0];
  if (!(from & RegionStep::kStep) || g.dtype(g.result(n, 1)) != kernel::compute_dtype(steps[from & ~RegionStep::kStep].dtype))
    return false;
  const std::vector<bool> needed = needed_steps(steps, steps.size() - 1);
  for (size_t i = 0; i < steps.size(); ++i)
    if (needed[i] && i != norm && (is_core(steps[i]) || std::ranges::find(steps[i].args, operand) != steps[i].args.end()))
      return false;
  return true;
}

// Each element is read for the last time before the result takes its place.
bool gives_rows(const Graph& g, NodeId n, size_t) { return varying_steps(g, n).back(); }

struct Row {
  OpKind op;
  size_t result;
  uint32_t operands;  // a set of bits
  bool (*holds)(const Graph&, NodeId, size_t operand);
};
constexpr Row kRows[] = {
    {OpKind::Softmax, 0, 0b1, always},
    {OpKind::LogSoftmax, 0, 0b1, always},
    {OpKind::LayerNorm, 0, 0b1, always},
    {OpKind::RmsNorm, 0, 0b1, always},
    {OpKind::GroupNorm, 0, 0b1, always},
    {OpKind::FusedResidualLN, 0, 0b11, always},
    {OpKind::FusedResidualLN, 1, 0b11, stores_exact_sum},
    {OpKind::FusedResidualRmsNorm, 0, 0b11, always},
    {OpKind::FusedResidualRmsNorm, 1, 0b11, stores_exact_sum},
    {OpKind::NormRegion, 0, ~0u, always},
    {OpKind::NormRegion, 1, ~0u, serves_no_later_step},
    {OpKind::ReduceRegion, 0, ~0u, gives_rows},
    {OpKind::Rope, 0, 0b1, always},
    {OpKind::FusedMatMulBiasAct, 0, 0b1000, always},
    {OpKind::DequantMatMul, 0, 0b100000, always},
    {OpKind::FusedConvBiasAct, 0, 0b1000, sums_channels},
    {OpKind::FusedConvTransposeBiasAct, 0, 0b1000, always},
    {OpKind::ScatterElements, 0, 0b1, always},
    {OpKind::ScatterNd, 0, 0b1, always},
};

}  // namespace

bool may_overwrite(const Graph& g, NodeId n, size_t result, size_t operand) {
  const OpKind op = g.op(n);
  if (has_trait(op, kElementwise)) return result == 0 && has_trait(op, kInPlace);
  for (const Row& row : kRows)
    if (row.op == op && row.result == result && operand < 32 && (row.operands >> operand & 1)) return row.holds(g, n, operand);
  return false;
}

}  // namespace rlxc::codegen
