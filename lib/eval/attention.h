// Attention and rotary embedding on arrays of double, shared by plain ops and HIR blocks.
#pragma once
#include "eval/context.h"

namespace rlxc::eval {

// Strides of a [B,H,S,D], [B,S,H,D] or [B,S,H*D] array; `at` is the offset of element (b, h, s, 0).
struct HeadView {
  int64_t batch = 0, heads = 0, length = 0, width = 0;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0, element_stride = 1;
  int64_t at(int64_t b, int64_t h, int64_t s) const { return b * batch_stride + h * head_stride + s * row_stride; }
};
HeadView head_view(std::span<const int64_t> dims, AttentionLayout, int64_t heads, bool transposed = false);

// y(b,h,s,:) = sum over keys of softmax(scale * q.k, soft-capped, masked) * v. Rows without a visible key give 0, or with
// `finite_mask` the mean of v. `mask` (kind bias: added to the scores; else true is visible) broadcasts to [B,H,Sq,Sk]; causal
// and window masks may have one too. The last query is aligned with the last key.
struct AttentionOperands {
  std::vector<double> q, k, v;
  HeadView q_view, k_view, v_view, y_view;
  const TensorData* mask = nullptr;
  MaskKind kind = MaskKind::None;
  int64_t window = 0;
  double scale = 0, softcap = 0;
  bool finite_mask = false;
};
std::vector<double> attention(const AttentionOperands&);

// x := rms_norm(x) * gamma per head; gamma is [width] or [heads, width].
void normalise_heads(std::vector<double>& x, const HeadView&, const TensorData& gamma, double eps);

// Rotates the first n_rot elements of each head by the angles of the tables, which have one row per position.
void rope(std::vector<double>& x, const HeadView&, const TensorData& cos, const TensorData& sin, int64_t n_rot, RopeStyle);

}  // namespace rlxc::eval
