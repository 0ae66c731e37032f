// Rows as 8-bit integers with scales, one for each block of a row. Two forms:
//   rounded: round_even(x * (1 / scale)) with scale = max |x| / 127, in f32 arithmetic. A block of zeros has scale 0,
//            one with an infinity or NaN has scale NaN.
//   split:   x / scale = d0 * 256^2 + d1 * 256 + d2 + d3 / 256. The digits are -128 .. 127, the scale is the least power of two
//            that allows it. Values are accurate to 2^-23 of the largest |x| of the block, or to 2^-31 if d3 counts. `fine` says
//            so: more than a fifth of the values other than 0 are below 2^-9 of the largest one. A block with an infinity or NaN
//            has scale NaN.
#pragma once
#include <optional>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

constexpr int kRowDigits = 4;

struct RoundRowsSpec {
  Dims rows;  // the shape without its last axis
  Index k = 1;
  int64_t block = 0;  // divides k; 0: all of k
  Operand x = {};     // strides over rows and k
  // Dense results: i8 values and, per row and block, their scale (f32) and sum (i32); or only the float value * scale. For split
  // rows, `values` and `sums` have an axis of digits after the rows, and `fine` (i32) is 0 or 1.
  Operand values = {};
  std::optional<Operand> scale = {}, sums = {}, fine = {};
  bool where_it_pays = false;  // split: only if splits_rows_of(the number of rows)
};

// Adds arguments x, values, [scale, sums, fine] and the body.
void build_round_rows(Builder&, const RoundRowsSpec&, const Mapping&);

// A block that is rounded by a team of neighbouring threads: member, member + team, ... of its vectors by each. The team is a
// power of two that divides the number of vectors, 1 without shuffles. All threads of a warp must get here.
struct BlockRounding {
  Expr vectors, member;
  int lanes = 1, team = 1;
  std::function<Expr(Expr vector)> load;  // f32
  std::function<void(Expr vector, Expr values, Expr scale)> store;
  bool adds = true;  // whether the sum is used
};
struct RoundedBlock {
  Expr scale, sum;
};
RoundedBlock round_block(Builder&, const Mapping&, const BlockRounding&);
int rounding_team(const Mapping&, Expr vectors);

}  // namespace rlxc::kernel
