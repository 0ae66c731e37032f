// Steps and operands of a region that is being made of nodes.
#pragma once
#include "ir/graph.h"

namespace rlxc {

// Elementwise, as one step or as a region of them?
bool is_steps(const Graph&, NodeId);

// A value is an operand, or the step that it has been given.
class RegionProgram {
 public:
  explicit RegionProgram(const Graph& g) : g_(g) {}

  uint16_t code(ValueId);                        // of a value as an argument
  uint16_t add(RegionStep, ValueId given = {});  // appends a step, which gives a value
  uint16_t add(OpKind, DType, uint16_t a, uint16_t b = RegionStep::kNone, ValueId given = {});
  void give(ValueId v, uint16_t code) { known_.emplace_back(v, code); }  // another value that is the same
  void copy(NodeId);  // appends the steps of an elementwise node, or of a NormRegion

  std::vector<RegionStep> steps;
  std::vector<ValueId> operands;

 private:
  const Graph& g_;
  std::vector<std::pair<ValueId, uint16_t>> known_;
};

}  // namespace rlxc
