// Conditions under which kernels finish reading an operand before a result overwrites it.
#include <algorithm>

#include "codegen/lowerings.h"
#include "ir/region.h"
#include "kernel/builders/common.h"

namespace rlxc::codegen {

// Elements of the result have the places of those that they replace.
bool keeps_type(const Graph& g, NodeId n, size_t operand) { return g.dtype(g.result(n)) == g.dtype(g.operand(n, operand)); }

// The sum is read back unrounded instead of being computed again.
bool stores_exact_sum(const Graph& g, NodeId n, size_t) {
  return g.dtype(g.result(n, 1)) == kernel::compute_dtype(g.dtype(g.operand(n, 0)));
}

// Depthwise kernels on CPU threads overlap the last two vectors of a row, and would read overwritten elements.
bool sums_channels(const Graph& g, NodeId n, size_t) {
  return g.attrs<FusedConvAttrs>(n).conv.groups == 1 || g.dims(g.operand(n, 1))[1] != Dim(1);
}

// Kernels store the operand of the norm, if it is a result, before later steps read theirs, and read it back if it was not
// rounded.
bool serves_no_later_step(const Graph& g, NodeId n, size_t operand) {
  const auto& a = g.attrs<FusionAttrs>(n);
  if (!keeps_operand(a)) return true;
  const auto& steps = a.steps;
  const size_t norm = last_norm_step(steps);
  const uint16_t from = steps[norm].args[0];
  if (!(from & RegionStep::kStep) || g.dtype(g.result(n, 1)) != kernel::compute_dtype(steps[from & ~RegionStep::kStep].dtype))
    return false;
  std::vector<bool> needed = needed_steps(steps, steps.size() - 1);
  for (const int64_t step : std::span(a.also).subspan(1)) {
    const std::vector<bool> more = needed_steps(steps, static_cast<size_t>(step));
    for (size_t i = 0; i < needed.size(); ++i) needed[i] = needed[i] || more[i];
  }
  for (size_t i = 0; i < steps.size(); ++i)
    if (needed[i] && i != norm && (is_core(steps[i]) || std::ranges::find(steps[i].args, operand) != steps[i].args.end()))
      return false;
  return true;
}

// Each element is last read before the result overwrites it.
bool gives_rows(const Graph& g, NodeId n, size_t) { return varying_steps(g, n).back(); }

}  // namespace rlxc::codegen
