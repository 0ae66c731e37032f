// A tensor rounded to u8 by the range of its elements and 0: q = saturate(round_even(x / scale) + zero point), in three kernels.
//   build_range     the least and the greatest element of each of `range_parts` parts (f32, pairs)
//   build_range_quantization   scale = (high - low) / 255 and zero point = saturate(round_even(-low / scale))
//   build_quantize_by_range    the elements
#pragma once
#include "kernel/builders/common.h"

namespace rlxc::kernel {

int64_t range_parts(const Mapping&);
// Operands are dense and have `count` elements. Each adds its arguments in the order x, parts; parts, scale, zero; x, scale,
// zero, q.
void build_range(Builder&, DType x, Index count, const Mapping&);
void build_range_quantization(Builder&, const Mapping&);
void build_quantize_by_range(Builder&, DType x, Index count, const Mapping&);

}  // namespace rlxc::kernel
