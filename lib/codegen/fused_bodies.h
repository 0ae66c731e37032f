// The bodies of prologues and epilogues (kernel/builders/fused_io.h) of all anchors: the steps of a region, and sums with an
// activation.
#pragma once
#include "codegen/lowerings.h"
#include "ir/region.h"
#include "kernel/builders/fused_io.h"

namespace rlxc::codegen {

class RegionSteps {
 public:
  using Known = std::vector<Expr>;  // values by step; empty if not available

  explicit RegionSteps(std::span<const RegionStep> steps) : steps_(steps), rounded_(rounded_products(steps)) {}

  // Returns the values of step arguments. `known` must have all reductions and norms that they need.
  std::vector<Expr> values(std::span<const uint16_t> args, Known, const kernel::LoadInput&) const;
  Expr value(uint16_t arg, Known, const kernel::LoadInput&) const;

 private:
  std::span<const RegionStep> steps_;
  std::vector<bool> rounded_;
};

// The argument that stands for a step; those for the last step and the steps `also`.
inline uint16_t step_arg(size_t step) { return static_cast<uint16_t>(RegionStep::kStep | step); }
std::vector<uint16_t> result_args(std::span<const RegionStep>, std::span<const int64_t> also);

// Computes the arguments `wanted`. The roots are the values of the steps `roots`; the inputs are the operands of the steps, or,
// if `operands` is not empty, these.
kernel::FusedBody steps_body(std::span<const RegionStep>, std::vector<size_t> roots, std::vector<uint16_t> wanted,
                             std::vector<size_t> operands = {});
// The results of an integer matmul or convolution, from its one or two sums. Inputs are the operands from kQuantOperands on.
kernel::FusedBody results_body(std::span<const RegionStep>, std::span<const int64_t> also);
// Operand 0 quantized to `to` by a scale and a zero point of one number each (rounds_operand of ir/region.h). The zero point is
// an argument before.
kernel::FusedBody quantize_body(DType to);
kernel::Prologue quantized_operand(Operand scale, Operand zero, DType to);
// The activation of the root plus `addends` inputs; null if that is the root.
kernel::FusedBody sum_body(size_t addends, const Epilogue& act);

}  // namespace rlxc::codegen
