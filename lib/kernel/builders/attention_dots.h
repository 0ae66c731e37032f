// Attention of 8-bit integers with a dot unit. On CPU threads, the scores of a block of queries stay in a thread's memory, where
// their softmax is rounded to the integers that multiply the values; scores of a symbolic number are in buffers.
#pragma once
#include "kernel/builders/gemm_spec.h"

namespace rlxc::kernel {

struct IntegerAttentionSpec {
  // The matmuls q * k and probabilities * v, with one batch. The epilogue of the first gives f32 scores. On CPU threads, right
  // operands are packed (build_pack_dots); if m and n of the first are constants, the builder sets its c, and a of the second
  // except the type, otherwise both are buffers, and the buffer of a has attention_slack() more bytes. On a grid, right operands
  // are in memory, and of the first's c and the second's a only the type counts.
  GemmSpec scores, values;
  // Quantizes a probability to values.a.dtype. Its inputs are those of the epilogue of `scores`.
  Prologue probability;
};

int64_t attention_slack();

// Adds q, k panels, zero points of q and k, inputs of the epilogue of scores, v panels, zero points of probabilities and v, those
// of values, c, and the buffers of scores and probabilities, if any.
void build_integer_attention(Builder&, IntegerAttentionSpec, const Mapping&);

void integer_attention_on_grid(Builder&, const IntegerAttentionSpec&, const Mapping&);  // emits the kernel, arguments as above

}  // namespace rlxc::kernel
