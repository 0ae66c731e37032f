// The sizes, operands and masks of attention.
#pragma once
#include <optional>

#include "kernel/builders/fused_io.h"

namespace rlxc::kernel {

struct AttentionSpec {
  Index batch = 1, heads = 1, queries = 1, keys = 1;
  int64_t group = 1;                   // heads of q per head of k and v
  int64_t width = 1, value_width = 1;  // elements per head
  Operand q, k, v, y;                  // strides [batch, head, position, element]
  std::optional<Operand> mask;         // strides [batch, head, query, key]
  Epilogue epilogue;                   // strides as y
  bool mask_is_bias = false;           // true: added to the scores; false: nonzero means visible
  bool finite = false;            // hidden scores are the lowest finite number: a row without a visible key is the mean of all v
  bool causal = false;            // query i sees key j if j <= i + keys - queries
  std::optional<int64_t> window;  // and if j >= i + keys - queries - window
  double scale = 1, softcap = 0;  // softcap 0: none
};

}  // namespace rlxc::kernel
