// Rows of numbers rounded to 8 bits: codes round_even(x * (1 / scale)) with scale = max |x| / 127 of each block of a row, in the
// arithmetic of f32. A block of zeros has scale 0.
#pragma once
#include <optional>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

struct RoundRowsSpec {
  Dims rows;  // the shape without its last axis
  Index k = 1;
  int64_t block = 0;  // divides k; 0: all of it
  Operand x = {};     // strides over rows and k
  // Dense results: codes (i8) and, for each row and block, their scale (f32) and sum (i32); or only code * scale (a float).
  Operand values = {};
  std::optional<Operand> scale = {}, sums = {};
};

// Adds arguments x, values, [scale, sums] and the body.
void build_round_rows(Builder&, const RoundRowsSpec&, const Mapping&);

}  // namespace rlxc::kernel
