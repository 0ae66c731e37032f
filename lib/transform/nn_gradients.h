// Gradients of convolutions, pooling and norms by their formulas, for the rules of operations and for importers of models that
// hold the backward operations themselves.
#pragma once
#include "ir/term.h"

namespace rlxc::transform {

// (x-mean)/sqrt(var+eps) over `rows`, and 1/sqrt(var+eps).
struct Normalised {
  Term x, r;
};
Normalised normalised(Term x, const std::vector<int64_t>& rows, double eps);
// By the x that was normalised, from the gradient by what came of it.
Term norm_gradient(const Normalised&, Term g, const std::vector<int64_t>& rows);
// x/sqrt(mean(x^2)+eps): the inverse root, and the gradient by x from that by the result.
Term rms_inverse(Term x, const std::vector<int64_t>& rows, double eps);
Term rms_gradient(Term x, Term r, Term g, const std::vector<int64_t>& rows);

// What was reduced over the axes, with them again as axes of size 1; x is what was reduced.
Term kept(Term reduced, Term x, const std::vector<int64_t>& axes);
// The slope of a reduction by each element of x, where it gives y (kept). Equal largest elements share it evenly.
Term reduction_slope(const ReduceAttrs&, Term x, Term y);

// x [N,C,...] as [N, groups, rest].
std::vector<Dim> grouped(Term x, int64_t groups);
// All axes but that one.
std::vector<int64_t> all_but(int64_t axis, int rank);
std::vector<int64_t> axes_between(int64_t from, int64_t to);
// A vector beside axis `axis` of x.
Term along(Term v, int64_t axis, Term x);

// By x of sizes dx: a convolution of dy with the flipped weights, or, where sizes are not known or strides meet dilations, a
// transposed convolution. Invalid where the ranks differ.
Term conv_input_gradient(Term dy, Term w, ConvAttrs, const std::vector<Dim>& dx);
// By w of sizes dw [Co, Ci/groups, ...]: a correlation of x and dy over the batch.
Term conv_weight_gradient(Term x, Term dy, ConvAttrs, const std::vector<Dim>& dw);
// By q, k, v and by the scores that the mask or bias was applied to, from dy by what attention gives. `mask` may be invalid. All
// invalid where the head size is not known and no scale is given. Without `wants_scores`, many queries are taken in blocks, and
// the gradient by the scores may be invalid.
struct AttentionGradients {
  Term q, k, v, scores;
};
AttentionGradients attention_gradients(const AttentionAttrs&, Term q, Term k, Term v, Term mask, Term dy, bool wants_scores);
// dy added at the first largest element of each window of x.
Term max_pool_gradient(Term x, Term dy, PoolAttrs);
// Pooling by the p-th power: how the result y moves when x does, and the gradient by x from that by y.
Term power_pool_tangent(Term x, Term y, Term dx, const PoolAttrs&);
Term power_pool_gradient(Term x, Term y, Term dy, const PoolAttrs&);
// The gradient of sums over windows by x of sizes dx.
Term sum_pool_gradient(Term dy, const PoolAttrs&, const std::vector<Dim>& dx);
// `updates` added into zeros [dims] at positions of the row-major order; both any shape of as many elements.
Term added_at(std::vector<Dim> dims, Term positions, Term updates);

}  // namespace rlxc::transform
