// softmax(scale * q * k^T) * v for every head, with masks. Keys are processed in blocks with a running maximum and sum, and the
// scores matrix is never stored (Milakov and Gimelshein 2018; Dao et al., FlashAttention, 2022).
#pragma once
#include "kernel/builders/attention_spec.h"

namespace rlxc::kernel {

// Adds q, k, v, [mask], inputs of the epilogue, y. Without `finite`, a row without a visible key is 0. With several `parts`, y
// has the results of the parts, for build_attention_sum.
void build_attention(Builder&, const AttentionSpec&, const Mapping&, int64_t parts = 1);

// Whether few queries of all heads that share keys are the rows of a workgroup.
bool attention_has_few_queries(const AttentionSpec&, const Mapping&);
// The number of parts into which workgroups split the keys: more than 1 for few queries and heads on a grid.
int64_t attention_parts(const AttentionSpec&, const Mapping&);
// Elements of a row of parts, in the compute type: the weighted sums of values of each part, then the largest score and the sum
// of weights of each.
inline int64_t attention_part_elements(const AttentionSpec& s, int64_t parts) { return parts * (s.value_width + 2); }
// Adds the results of parts, in rows [batch, head, query], inputs of the epilogue, y.
void build_attention_sum(Builder&, const AttentionSpec&, Operand parts_of_rows, int64_t parts, const Mapping&);

}  // namespace rlxc::kernel
