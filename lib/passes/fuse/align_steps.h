// Aligns the programs of the epilogues of several matmuls, so that one program computes all of them with operands that differ by
// column. If a program lacks a step of another, the step is added with a neutral operand. That is exact: v * 1,
// v / 1, v + -0, v - 0. If it lacks a Q/DQ pair, it repeats a pair before that, or the rounding after it. That is exact, too:
// k * s / s rounds to k for integers k of 16 bits.
#pragma once
#include <vector>

#include "ir/graph.h"

namespace rlxc::fuse {

struct AlignedSteps {
  struct Operand {
    std::vector<ValueId> values;  // by member; invalid: neutral
    OpKind reader;                // a step that reads it
  };
  std::vector<RegionStep> steps;  // arguments are numbers of `operands`, or steps
  std::vector<Operand> operands;
};

// The steps of the nodes, QMatMul or FusedQMatMul; empty if their programs cannot be aligned. O(nodes * steps^2).
AlignedSteps aligned_steps(const Graph&, std::span<const NodeId>);

double neutral_operand(OpKind, DType);

}  // namespace rlxc::fuse
