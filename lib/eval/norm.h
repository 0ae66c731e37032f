// Norms and reductions on arrays of double, shared by plain and fused ops.
#pragma once
#include "eval/context.h"

namespace rlxc::eval {

// (x-mean)/sqrt(var+eps), or x/sqrt(mean(x^2)+eps) if `rms`, over axes from `axis` on; then * gamma + beta if present, which
// broadcast to these axes.
struct NormOperands {
  const TensorData* gamma = nullptr;
  const TensorData* beta = nullptr;
};
void normalise(std::vector<double>& x, std::span<const int64_t> dims, int64_t axis, double eps, bool rms, NormOperands);

// Reduces x into a tensor of its type with the kept axes.
bool reduce_tensor(Context&, const TensorData& x, const ReduceAttrs&, TensorData* to);

// The number of an element: one for all, or one for each run of `width` elements in turn.
double number_of(const std::vector<double>& numbers, size_t element, size_t width);
// Puts the result. Quantizes it if operand `scale` is there, by the numbers (number_of) of that operand and of the next one, and
// dequantizes the codes by the scale after these, if it is there.
bool put_rounded(Context&, std::vector<double> x, size_t scale, size_t width = 1);

// x += y, with y broadcast to the dims of x.
void add_broadcast(std::vector<double>& x, std::span<const int64_t> dims, const TensorData& y);

// Softmax, or its logarithm, along an axis, in place.
void softmax(std::vector<double>& x, std::span<const int64_t> dims, int64_t axis, bool log);

// Softmax of `n` elements in place; all -inf gives 0.
void softmax_run(double* x, int64_t n);

}  // namespace rlxc::eval
