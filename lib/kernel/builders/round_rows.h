// Rounds rows to 8 bits: round_even(x * (1 / scale)) with scale = max |x| / 127 per block of a row, in f32 arithmetic. A block of
// zeros has scale 0.
#pragma once
#include <optional>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

struct RoundRowsSpec {
  Dims rows;  // the shape without its last axis
  Index k = 1;
  int64_t block = 0;  // divides k; 0: all of k
  Operand x = {};     // strides over rows and k
  // Dense results: i8 values and, per row and block, their scale (f32) and sum (i32); or only the float value * scale.
  Operand values = {};
  std::optional<Operand> scale = {}, sums = {};
};

// Adds arguments x, values, [scale, sums] and the body.
void build_round_rows(Builder&, const RoundRowsSpec&, const Mapping&);

}  // namespace rlxc::kernel
