#include "ir/region.h"

namespace rlxc {

bool reduces(const NormRegionAttrs& a) {
  const size_t core = norm_step(a.steps);
  return core < a.steps.size() && a.steps[core].op == OpKind::Reduce;
}

std::vector<bool> needed_steps(std::span<const RegionStep> steps, size_t wanted, size_t given) {
  std::vector<bool> needed(steps.size());
  needed[wanted] = true;
  for (size_t i = wanted + 1; i-- > 0;)
    if (needed[i] && i != given)
      for (uint16_t arg : steps[i].args)
        if (arg != RegionStep::kNone && arg & RegionStep::kStep) needed[arg & ~RegionStep::kStep] = true;
  return needed;
}

std::vector<bool> operands_before_core(const NormRegionAttrs& a, size_t count) {
  const size_t core = norm_step(a.steps);
  const std::vector<bool> needed = needed_steps(a.steps, core, a.steps.size());
  std::vector<bool> read(count);
  for (size_t i = 0; i <= core; ++i)
    for (uint16_t arg : a.steps[i].args)
      if (needed[i] && arg != RegionStep::kNone && !(arg & RegionStep::kStep) && arg < count) read[arg] = true;
  return read;
}

std::vector<Dim> core_dims(const Graph& g, NodeId n) {
  const auto operands = g.operands(n);
  const std::vector<bool> read = operands_before_core(g.attrs<NormRegionAttrs>(n), operands.size());
  std::vector<Dim> all;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!read[i]) continue;
    const auto d = g.dims(operands[i]);
    if (d.size() > all.size()) all.insert(all.begin(), d.size() - all.size(), Dim(1));
    for (size_t k = 0; k < d.size(); ++k)
      if (Dim& to = all[all.size() - d.size() + k]; to == Dim(1)) to = d[k];
  }
  return all;
}

}  // namespace rlxc
