// Attention of 8-bit integers on CPU threads with a dot unit: the scores of a block of queries stay in a thread's memory, where
// their softmax is rounded to the integers that multiply the values. Scores of a symbolic number are in buffers.
#pragma once
#include "kernel/builders/gemm_spec.h"

namespace rlxc::kernel {

struct IntegerAttentionSpec {
  // The matmuls q * k and probabilities * v, with packed right operands (build_pack_dots) and one batch. The epilogue of the
  // first gives f32 scores. If m and n of the first are constants, the builder sets its c, and a of the second except the
  // type. Otherwise both are buffers. The buffer of a has attention_slack() more bytes.
  GemmSpec scores, values;
  // Returns the probability, rounded to values.a.dtype; `load` returns an extra of `scores`.
  std::function<Expr(Expr probability, const LoadInput& load)> round;
};

int64_t attention_slack();

// Adds q, k panels, zero points of q and k, extras of scores, v panels, zero points of probabilities and v, extras of values, c,
// and the buffers of scores and probabilities, if any.
void build_integer_attention(Builder&, IntegerAttentionSpec, const Mapping&);

}  // namespace rlxc::kernel
