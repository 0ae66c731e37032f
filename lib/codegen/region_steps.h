// The steps of a region as functions that a kernel builder calls with what loads operands.
#pragma once
#include "codegen/lowerings.h"

namespace rlxc::codegen {

class RegionSteps {
 public:
  using Known = std::vector<Expr>;  // by step; of those whose values are not at hand, none

  explicit RegionSteps(std::span<const RegionStep> steps) : steps_(steps) {}

  // Of arguments of steps. The values of the cores that they need must be known.
  std::vector<Expr> values(std::span<const uint16_t> args, Known, const kernel::LoadInput&) const;
  Expr value(uint16_t arg, Known, const kernel::LoadInput&) const;
  // Of the last step, by the value of the only core.
  Expr last(size_t core, Expr value, const kernel::LoadInput&) const;

 private:
  std::span<const RegionStep> steps_;
};

}  // namespace rlxc::codegen
