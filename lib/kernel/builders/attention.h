// softmax(scale * q * k^T) * v for every head, with masks. Keys are processed in blocks with a running maximum and sum, and the
// scores matrix is never stored (Milakov and Gimelshein 2018; Dao et al., FlashAttention, 2022).
#pragma once
#include "kernel/builders/attention_spec.h"

namespace rlxc::kernel {

// Adds q, k, v, [mask], inputs of the epilogue, y. Without `finite`, a row without a visible key is 0.
void build_attention(Builder&, const AttentionSpec&, const Mapping&);

}  // namespace rlxc::kernel
