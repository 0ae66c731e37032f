#include "codegen/region_steps.h"

#include "ir/region.h"

namespace rlxc::codegen {

Expr RegionSteps::run(size_t wanted, size_t given, Expr core, const kernel::LoadInput& load) const {
  const std::vector<bool> needed = needed_steps(steps_, wanted, given);
  std::vector<Expr> values(wanted + 1);
  for (size_t i = 0; i <= wanted; ++i)
    if (needed[i]) values[i] = i == given ? core : step_value(steps_[i], values, load);
  return values[wanted];
}

Expr RegionSteps::before(const kernel::LoadInput& load) const {
  const uint16_t from = core().args[0];
  return from & RegionStep::kStep ? run(from & ~RegionStep::kStep, steps_.size(), {}, load) : load(from);
}

Expr RegionSteps::after(Expr core, const kernel::LoadInput& load) const { return run(steps_.size() - 1, core_, core, load); }

}  // namespace rlxc::codegen
