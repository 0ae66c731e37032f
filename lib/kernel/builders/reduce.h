// Reductions over any set of axes of a value that is computed from its inputs: rows (the last axis), columns, all, or alternating
// axes. Neighbouring axes that are both kept or both reduced are merged first. On threads: vectors of accumulators along the last
// axis; on a grid: a workgroup per result where the last axis is reduced (tree in shared memory, shuffles inside a warp),
// else a thread per result.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

struct ReduceSpec {
  Dims shape;                   // of what is reduced
  std::vector<bool> reduced;    // per axis
  std::vector<Operand> inputs;  // strides over `shape`
  Operand output;               // row-major over the kept axes
  DType accumulate = DType::F32;
  ExprOp combine = ExprOp::Add;                   // Add, Mul, Min, Max, And or Or
  std::function<Expr(const LoadInput&)> prepare;  // what is reduced at an element; null: the first input
  // Of what was accumulated, the i64 count of reduced elements, and inputs that do not change along reduced axes; may be null.
  std::function<Expr(Expr, Expr, const LoadInput&)> finish;
};

// Adds the arguments (inputs, output) and the body to a builder that has its symbols and nothing else.
void build_reduce(Builder&, const ReduceSpec&, const Mapping&);

// The value that leaves others unchanged under `combine`.
Expr identity_of(Kernel*, ExprOp combine, DType);
// All lanes of a vector combined.
Expr combine_lanes(ExprOp combine, Expr vector);
// `value` of all threads of a workgroup combined, given to every thread. Uses shared memory and barriers; needs uniform control.
Expr combine_group(Builder&, const Mapping&, ExprOp combine, Expr value, Expr thread, int64_t threads);

}  // namespace rlxc::kernel
