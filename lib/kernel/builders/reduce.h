// Reductions of a computed value over any set of axes. Neighbouring axes that are both kept or both reduced are merged first. On
// CPU threads: vectors of accumulators along the last axis. On a grid: a workgroup per result if the last axis is reduced (tree
// in shared memory, shuffles within a warp), else a thread per result.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/builders/fused_io.h"

namespace rlxc::kernel {

struct ReduceSpec {
  Dims shape;                   // of the reduced value
  std::vector<bool> reduced;    // per axis
  std::vector<Operand> inputs;  // strides over `shape`
  Operand output;               // row-major over the remaining axes
  DType accumulate = DType::F32;
  ExprOp combine = ExprOp::Add;  // Add, Mul, Min, Max, And or Or
  Prologue prologue = {};        // without a root: the value to reduce at an element; null: the first input
  // Its roots are the accumulated value and the i64 count of reduced elements. It reads inputs that are invariant along reduced
  // axes.
  Epilogue epilogue = {};
};

// Adds the arguments (inputs, output) and the body. The builder must have its symbols and nothing else.
void build_reduce(Builder&, const ReduceSpec&, const Mapping&);

// The identity of `combine`.
Expr identity_of(Kernel*, ExprOp combine, DType);
// Combines all lanes of a vector.
Expr combine_lanes(ExprOp combine, Expr vector);
// Combines `value` over all threads of a workgroup; every thread gets the result. Uses shared memory and barriers: control must
// be uniform.
Expr combine_group(Builder&, const Mapping&, ExprOp combine, Expr value, Expr thread, int64_t threads);
// How many of so many parts, a power of two, a thread combines at once, where threads exchange parts in shared memory: a barrier
// takes longer than a few loads.
int64_t parts_of_thread(int64_t parts);
// Combines v over aligned sets of `count` threads of a warp, a power of two. All threads of a set have the result.
Expr combine_shuffled(Builder&, const char* name, ExprOp combine, Expr v, int64_t count);

}  // namespace rlxc::kernel
