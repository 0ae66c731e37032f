// The steps of a region around its core as functions that a kernel builder calls with what loads operands.
#pragma once
#include "codegen/lowerings.h"

namespace rlxc::codegen {

class RegionSteps {
 public:
  explicit RegionSteps(std::span<const RegionStep> steps) : steps_(steps), core_(norm_step(steps)) {}

  const RegionStep& core() const { return steps_[core_]; }
  bool has_after() const { return core_ + 1 < steps_.size(); }
  Expr before(const kernel::LoadInput&) const;  // the argument of the core
  Expr after(Expr core, const kernel::LoadInput&) const;

 private:
  Expr run(size_t wanted, size_t given, Expr core, const kernel::LoadInput&) const;

  std::span<const RegionStep> steps_;
  size_t core_;
};

}  // namespace rlxc::codegen
