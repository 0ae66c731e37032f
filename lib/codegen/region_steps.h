// Evaluates the steps of a region inside a kernel builder.
#pragma once
#include <functional>

#include "codegen/lowerings.h"
#include "ir/region.h"

namespace rlxc::codegen {

class RegionSteps {
 public:
  using Known = std::vector<Expr>;  // values by step; empty if not available

  explicit RegionSteps(std::span<const RegionStep> steps) : steps_(steps), rounded_(rounded_products(steps)) {}

  // Returns the values of step arguments. `known` must have all reductions and norms that they need.
  std::vector<Expr> values(std::span<const uint16_t> args, Known, const kernel::LoadInput&) const;
  Expr value(uint16_t arg, Known, const kernel::LoadInput&) const;
  // Returns the value of the last step, given the value of the only reduction, norm or matmul (step `core`).
  Expr last(size_t core, Expr value, const kernel::LoadInput&) const;

 private:
  std::span<const RegionStep> steps_;
  std::vector<bool> rounded_;
};

// The values of the last step and of the steps `also` of an integer matmul or convolution, whose operands are `extras`.
using StepResults = std::function<std::vector<Expr>(std::span<const Expr> sums, const std::vector<Expr>& extras)>;
StepResults values_of_results(std::span<const RegionStep>, std::span<const int64_t> also);

}  // namespace rlxc::codegen
