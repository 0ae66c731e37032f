// Aligns the programs of the epilogues of several matmuls. One program then computes all of them, with operands that differ by
// column. Where a program lacks a step, it gets a neutral operand: v * 1, v / 1, v + -0, v - 0. Where it lacks a Q/DQ pair, it
// repeats the pair before or the rounding after. Both are exact: k * s / s rounds to k for integers k of 16 bits.
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
