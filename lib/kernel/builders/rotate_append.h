// Heads of queries and keys are rotated, and keys and values written to their caches, in one kernel.
#pragma once
#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Pairs (a, b) of the first `rotated` elements of a head become (a*cos - b*sin, b*cos + a*sin); the others are copied. Row i of
// keys and values goes to row at[i] of the cache, which is clamped to the cache.
struct RotateAppendSpec {
  Index batch = 1, heads = 1, kv_heads = 1, length = 1, width = 1, value_width = 1;
  Index room = 1;                            // rows of a head in the caches
  Index rotated = 1, pairs = 1, second = 1;  // elements and pairs; from the first to the second element of a pair
  int64_t step = 1;                          // between the first elements of neighbouring pairs
  Operand q, k, v, y, keys, values;          // strides [batch, head, row, element]; elements are contiguous
  Operand cosine[2], sine[2];                // of first and second elements, strides [batch, head, row, pair]
  Operand at;                                // strides [batch, row]
};
void build_rotate_append(Builder&, const RotateAppendSpec&,
                         const Mapping&);  // adds q, k, v, cosine, sine, cosine, sine, at, y, keys, values

}  // namespace rlxc::kernel
