// What the ways of computing by matrix units share: the unit that fits, and which elements of a matrix a lane holds.
#pragma once
#include <functional>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

const MatrixUnit* find_unit(const Mapping&, DType operand, DType accumulator);  // null where there is none

// Where the lane's part of a matrix begins along its rows or columns; `in_warp` is the lane's number in the warp.
Expr lane_start(Builder&, const MatrixUnit&, const FragmentLayout&, int8_t Step::*axis, Expr in_warp);

// The vector of a lane. load(step, n) reads n elements that follow each other along `inner`, from `step` after the lane's start
// on.
Expr fragment(Builder&, const MatrixUnit&, const FragmentLayout&, int8_t Step::*inner, const char* name,
              const std::function<Expr(Step, int)>& load);

}  // namespace rlxc::kernel
