// Helpers shared by the attention operators of several domains. Tensors of heads are [batch, heads, length, size].
#pragma once
#include "import/onnx/op.h"

namespace rlxc::onnx_import {

ValueId positions(Op&, Dim n);                       // 0..n-1, i64
ValueId size_of(Op&, Dim);                           // as an i64 scalar
ValueId heads_first(Op&, ValueId x, int64_t heads);  // from [batch, length, heads*size]; a rank-4 x is returned unchanged
ValueId heads_last(Op&, ValueId x);                  // the inverse
// Returns bool [queries, keys]: query i sees key j if j <= i + offset (absent: 0).
ValueId causal_mask(Op&, Dim queries, Dim keys, ValueId offset);
// Returns bool [queries, keys]: query i sees key j if i + offset - left <= j <= i + offset + right; -1 means unbounded.
ValueId window_mask(Op&, Dim queries, Dim keys, ValueId offset, int64_t left, int64_t right);
ValueId per_batch(Op&, ValueId numbers, Dim batch);  // i64 [batch,1,1,1]

ValueId real_tokens(Op&, size_t mask);  // i32 [batch]: the sum of a mask [batch, length]; zeros if input 0 has none

// The masks of one attention: `kept` is true for visible keys, `bias` is added to the scores. Both broadcast to the scores.
struct Masks {
  Op& op;
  ValueId kept, bias;

  void keep(ValueId);
  void add(ValueId);
  void penalise(ValueId m, double value, DType);  // adds `value` to the scores where `m` is false
  ValueId combined(DType) const;                  // as one bias; invalid without masks
};
ValueId attend(Op&, ValueId q, ValueId k, ValueId v, const Masks&, double scale, double softcap);
// Attention with one extra score per head, its sink [heads], which takes part in softmax but has no value. The scale comes from
// the node's attribute.
ValueId attend_with_sinks(Op&, ValueId q, ValueId k, ValueId v, const Masks&, double softcap, ValueId sinks);

// Writes the new keys (or values) of each batch into its cache [B,H,P,D] from position `past` [B,1,1,1] on. The result has
// `total` positions.
ValueId appended(Op&, ValueId cache, ValueId fresh, ValueId past, Dim total);
// Rows [T,H] at their places in [B,S,H], zeros elsewhere. `offsets`: the input with the token offsets [B,S].
ValueId with_padding(Op&, ValueId rows, size_t offsets);

// Returns the scores [B,H,Sq,Sk] with the masks applied.
ValueId masked_scores(Op&, ValueId q, ValueId k, const Masks&);

// Emits a rotary embedding of input 0. Arguments are input numbers of tables and positions.
void rotary(Op&, size_t cos, size_t sin, size_t position);
// The same with tables of each position, and their width.
void rotary_by_tables(Op&, ValueId cos, ValueId sin, Dim half);

}  // namespace rlxc::onnx_import
