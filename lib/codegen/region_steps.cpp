#include "codegen/region_steps.h"

namespace rlxc::codegen {

std::vector<Expr> RegionSteps::values(std::span<const uint16_t> args, Known known, const kernel::LoadInput& load) const {
  known.resize(steps_.size());
  std::vector<bool> needed(steps_.size());
  const auto need = [&](uint16_t arg) {
    if (arg != RegionStep::kNone && arg & RegionStep::kStep) needed[arg & ~RegionStep::kStep] = true;
  };
  for (uint16_t arg : args) need(arg);
  for (size_t i = steps_.size(); i-- > 0;)
    if (needed[i] && !known[i].kernel)
      for (uint16_t arg : steps_[i].args) need(arg);
  for (size_t i = 0; i < steps_.size(); ++i)
    if (needed[i] && !known[i].kernel) known[i] = step_value(steps_[i], rounded_[i], known, load);
  std::vector<Expr> out;
  for (uint16_t arg : args) out.push_back(arg & RegionStep::kStep ? known[arg & ~RegionStep::kStep] : load(arg));
  return out;
}

Expr RegionSteps::value(uint16_t arg, Known known, const kernel::LoadInput& load) const {
  return values({&arg, 1}, std::move(known), load)[0];
}

Expr RegionSteps::last(size_t core, Expr value, const kernel::LoadInput& load) const {
  Known known(steps_.size());
  known[core] = value;
  return this->value(static_cast<uint16_t>(RegionStep::kStep | (steps_.size() - 1)), std::move(known), load);
}

StepResults values_of_results(std::span<const RegionStep> steps, std::span<const int64_t> also) {
  std::vector<uint16_t> wanted{static_cast<uint16_t>(RegionStep::kStep | (steps.size() - 1))};
  for (const int64_t step : also) wanted.push_back(static_cast<uint16_t>(RegionStep::kStep | step));
  return [steps = RegionSteps(steps), wanted](std::span<const Expr> sums, const std::vector<Expr>& extras) {
    return steps.values(wanted, {sums.begin(), sums.end()}, [&](size_t i) { return extras[i - kQuantOperands]; });
  };
}

}  // namespace rlxc::codegen
