// Builder of the steps and operands of a region.
#pragma once
#include <functional>

#include "ir/graph.h"
#include "passes/pass.h"

namespace rlxc {

struct RegionLimits {
  uint32_t steps, inputs, arrays;  // arrays: inputs of more than one element

  // Whether these operands, and further results, are within the limits.
  bool take(const Graph&, std::span<const ValueId> operands, size_t results = 0) const;
};
// The limits of a region of the target. `epilogue`: the steps after an integer matmul or convolution, whose kernel repeats them
// for each vector of a tile of sums. A long epilogue is slower than a kernel of its own.
RegionLimits region_limits(const TargetTraits&, bool epilogue);

// Returns whether the node is elementwise: a single op, or an ElementwiseRegion of one result.
bool is_steps(const Graph&, NodeId);

// Returns whether the value is computed before the first run.
bool is_loaded(const Graph&, ValueId);

// Maps each value to an operand or a step.
class RegionProgram {
 public:
  explicit RegionProgram(const Graph& g) : g_(g) {}

  uint16_t code(ValueId);                        // the argument code of a value
  uint16_t add(RegionStep, ValueId given = {});  // appends a step that computes `given`
  uint16_t add(OpKind, DType, uint16_t a, uint16_t b = RegionStep::kNone, ValueId given = {});
  void give(ValueId v, uint16_t code) { known_.emplace_back(v, code); }  // makes v an alias of a known code
  // Appends the steps of an elementwise node, a NormRegion, a FusedQMatMul or a FusedQConv. `share`: elementwise steps that are
  // there stand for equal ones.
  void copy(NodeId, bool share = false);
  // The same, with the codes of the operands that `of` returns. Returns the code of the result.
  uint16_t copy(NodeId, const std::function<uint16_t(ValueId)>& of, bool share = false);

  // Appends a step of node n whose other steps have these codes. Returns its code.
  uint16_t copy(NodeId n, RegionStep, std::span<const uint16_t> codes);

  std::vector<RegionStep> steps;
  std::vector<ValueId> operands;

 private:
  const Graph& g_;
  std::vector<std::pair<ValueId, uint16_t>> known_;
};

}  // namespace rlxc
