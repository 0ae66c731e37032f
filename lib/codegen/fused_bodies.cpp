#include "codegen/fused_bodies.h"

#include <algorithm>

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

std::vector<uint16_t> result_args(std::span<const RegionStep> steps, std::span<const int64_t> also) {
  std::vector<uint16_t> args{step_arg(steps.size() - 1)};
  for (const int64_t step : also) args.push_back(step_arg(static_cast<size_t>(step)));
  return args;
}

kernel::FusedBody steps_body(std::span<const RegionStep> list, std::vector<size_t> roots, std::vector<uint16_t> wanted,
                             std::vector<size_t> operands) {
  return [steps = RegionSteps(list), count = list.size(), roots = std::move(roots), wanted = std::move(wanted),
          operands = std::move(operands)](std::span<const Expr> values, const kernel::LoadInput& load) {
    RegionSteps::Known known(count);
    for (size_t i = 0; i < roots.size(); ++i) known[roots[i]] = values[i];
    return steps.values(wanted, std::move(known), [&](size_t operand) {
      const auto at = std::ranges::find(operands, operand) - operands.begin();
      return load(operands.empty() ? operand : static_cast<size_t>(at));
    });
  };
}

kernel::FusedBody results_body(std::span<const RegionStep> steps, std::span<const int64_t> also) {
  return
      [wanted = result_args(steps, also), steps = RegionSteps(steps)](std::span<const Expr> sums, const kernel::LoadInput& load) {
        return steps.values(wanted, {sums.begin(), sums.end()}, [&](size_t i) { return load(i - kQuantOperands); });
      };
}

kernel::FusedBody quantize_body(DType to) {
  return [=](std::span<const Expr> roots, const kernel::LoadInput& load) -> std::vector<Expr> {
    return {kernel::quantized(roots[0], load(0), cast_to(load(1), to))};
  };
}

kernel::Prologue quantized_operand(Operand scale, Operand zero, DType to) {
  scale.strides = zero.strides = {0};
  zero.view = true;
  return {{std::move(scale), std::move(zero)}, quantize_body(to)};
}

kernel::FusedBody sum_body(size_t addends, const Epilogue& act) {
  if (addends == 0 && !act.has) return nullptr;
  return [=](std::span<const Expr> roots, const kernel::LoadInput& load) -> std::vector<Expr> {
    Expr sum = roots[0];
    for (size_t i = 0; i < addends; ++i) sum = sum + load(i);
    return {activation(act, sum)};
  };
}

}  // namespace rlxc::codegen
