// softmax(scale * q * k^T) * v for every head, with masks, without the matrix of scores in memory: blocks of keys with a
// running maximum and sum (Milakov and Gimelshein 2018; Dao et al., FlashAttention, 2022).
#pragma once
#include <optional>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

struct AttentionSpec {
  Index batch = 1, heads = 1, queries = 1, keys = 1;
  int64_t group = 1;                   // heads of q for one head of k and v
  int64_t width = 1, value_width = 1;  // of a head
  Operand q, k, v, y;                  // strides [batch, head, position, element]
  std::optional<Operand> mask;         // strides [batch, head, query, key]
  bool mask_is_bias = false;           // added to the scores; else nonzero means visible
  bool finite = false;            // hidden scores are the lowest finite number: a row with no visible key is the mean of all v
  bool causal = false;            // key j is visible to query i where j <= i + keys - queries
  std::optional<int64_t> window;  // and j >= i + keys - queries - window
  double scale = 1, softcap = 0;  // softcap 0: none
};

// Adds q, k, v, [mask], y. Without `finite`, a row with no visible key is 0.
void build_attention(Builder&, const AttentionSpec&, const Mapping&);

}  // namespace rlxc::kernel
