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
// bool, as that: key j is visible to query i when i + offset - left <= j <= i + offset + right; a bound of -1 is none.
ValueId window_mask(Op&, Dim queries, Dim keys, ValueId offset, int64_t left, int64_t right);
ValueId per_batch(Op&, ValueId numbers, Dim batch);  // i64 [batch,1,1,1]

// Masks of one attention: `kept` is true where a key is visible, `bias` is added to the scores; both broadcast to the scores.
struct Masks {
  Op& op;
  ValueId kept, bias;

  void keep(ValueId);
  void add(ValueId);
  void penalise(ValueId m, double value, DType);  // adds `value` to the scores where `m` is false
  ValueId combined(DType) const;                  // as one bias; invalid without masks
};
ValueId attend(Op&, ValueId q, ValueId k, ValueId v, const Masks&, double scale, double softcap);
// The same where each head has one more score, its sink [heads], that takes part in softmax and leads to no value. The scale is
// that of the node's attribute.
ValueId attend_with_sinks(Op&, ValueId q, ValueId k, ValueId v, const Masks&, double softcap, ValueId sinks);

// The scores [B,H,Sq,Sk] with what the masks add to them.
ValueId masked_scores(Op&, ValueId q, ValueId k, const Masks&);

// Rotary embedding of input 0 by the tables and positions at these inputs.
void rotary(Op&, size_t cos, size_t sin, size_t position);

}  // namespace rlxc::onnx_import
