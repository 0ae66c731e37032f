// Helpers for matrix units: selecting a unit, and the matrix elements of a lane.
#pragma once
#include <functional>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

inline constexpr int kReadBytes = 16;   // of a row that a thread reads at once
inline constexpr int64_t kLarge = 512;  // rows, columns or heads if their number is not known

inline int lanes_of_read(DType t) { return kReadBytes * 8 / static_cast<int>(rlxc::bits(t)); }

const MatrixUnit* find_unit(const Mapping&, DType operand, DType accumulator);  // null if none fits

// Returns the row or column where the lane's elements begin. `in_warp`: the lane's number in the warp.
Expr lane_start(Builder&, const MatrixUnit&, const FragmentLayout&, int8_t Step::*axis, Expr in_warp);

// Combines v over the lanes that hold the same row of a result.
Expr combined_across_row(Builder&, const MatrixUnit&, ExprOp combine, Expr v);

// Returns the vector of a lane. load(step, n) reads n consecutive elements along `inner`, at `step` from the lane's start.
Expr fragment(Builder&, const MatrixUnit&, const FragmentLayout&, int8_t Step::*inner, const char* name,
              const std::function<Expr(Step, int)>& load);

}  // namespace rlxc::kernel
