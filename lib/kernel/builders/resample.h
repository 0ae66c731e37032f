// Interpolation along an axis by tables: y[o, i, e] = sum over t of weight[i, t] * x[o, at[i, t], e].
#pragma once
#include "kernel/builders/fused_io.h"

namespace rlxc::kernel {

struct ResampleSpec {
  Index outer = 1, in = 1, out = 1, inner = 1;  // x: [outer, in, inner], y: [outer, out, inner]
  int64_t taps = 1;
  Operand at, weight;  // [out, taps], of I64 and of the type of the sums
  Operand x, y;
  Epilogue epilogue = {};  // strides over [outer, out, inner]
};

// Adds at, weight, x, inputs of the epilogue, y. For CPU threads.
void build_resample(Builder&, const ResampleSpec&, const Mapping&);

}  // namespace rlxc::kernel
