// Reductions over any set of axes of a dense tensor: rows (the last axis), columns, all, or alternating axes. Neighbouring
// axes that are both kept or both reduced are merged first. On threads: vectors of accumulators along the last axis; on a
// grid: a group of lanes per result where the last axis is reduced (tree in shared memory, shuffles inside a warp), else a
// lane per result.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

struct ReduceSpec {
  Dims shape;                 // of the input
  std::vector<bool> reduced;  // per axis
  std::string input_name = "x", output_name = "y";
  DType input = DType::F32, output = DType::F32;
  DType accumulate = DType::F32;
  ExprOp combine = ExprOp::Add;            // Add, Mul, Min, Max, And or Or
  std::function<Expr(Expr)> prepare;       // of each value, given as compute_dtype(input); may be null. Result: accumulate
  std::function<Expr(Expr, Expr)> finish;  // (accumulated, i64 count of the reduced elements); may be null. Result: output
};

// Adds the two arguments and the body to a builder that has its symbols and nothing else. Output: the kept axes, row-major.
void build_reduce(Builder&, const ReduceSpec&, const Mapping&);

// The value that leaves others unchanged under `combine`.
Expr identity_of(Kernel*, ExprOp combine, DType);
// All lanes of a vector combined.
Expr combine_lanes(ExprOp combine, Expr vector);
// `value` of all lanes of a group combined, given to every lane. Uses shared memory and barriers; needs uniform control.
Expr combine_group(Builder&, const Mapping&, ExprOp combine, Expr value, Expr lane, int64_t lanes);

}  // namespace rlxc::kernel
