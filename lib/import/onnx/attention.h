// Parts that the attention operators of several domains share. Tensors of heads are [batch, heads, length, size].
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

ValueId positions(Op&, Dim n);                       // 0..n-1, i64
ValueId size_of(Op&, Dim);                           // as an i64 scalar
ValueId heads_first(Op&, ValueId x, int64_t heads);  // from [batch, length, heads*size]; four axes stay
ValueId heads_last(Op&, ValueId x);                  // the inverse
// bool [queries, keys]: key j is visible to query i when j <= i + offset (absent: 0).
ValueId causal_mask(Op&, Dim queries, Dim keys, ValueId offset);

// Masks of one attention: `kept` is true where a key is visible, `bias` is added to the scores; both broadcast to the scores.
struct Masks {
  Op& op;
  ValueId kept, bias;

  void keep(ValueId);
  void add(ValueId);
  ValueId combined(DType) const;  // as one bias; invalid without masks
};
ValueId attend(Op&, ValueId q, ValueId k, ValueId v, const Masks&, double scale, double softcap);

// Rotary embedding of input 0 by the tables and positions at these inputs.
void rotary(Op&, size_t cos, size_t sin, size_t position);

}  // namespace rlxc::onnx_import
