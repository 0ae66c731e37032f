// Normalisations on arrays of double, and reductions, shared by the plain and the fused operations.
#pragma once
#include "eval/context.h"

namespace rlxc::eval {

// (x-mean)/sqrt(var+eps), or x/sqrt(mean(x^2)+eps) when `rms`, over runs of `n` elements; then * gamma + beta where given (their
// sizes broadcast to the last axes of `dims` from `axis` on).
struct NormOperands {
  const TensorData* gamma = nullptr;
  const TensorData* beta = nullptr;
};
void normalise(std::vector<double>& x, std::span<const int64_t> dims, int64_t axis, double eps, bool rms, NormOperands);

// x reduced, into a tensor of its type with the kept axes.
bool reduce_tensor(Context&, const TensorData& x, const ReduceAttrs&, TensorData* to);

// x += y (y broadcast to the sizes of x).
void add_broadcast(std::vector<double>& x, std::span<const int64_t> dims, const TensorData& y);

// Softmax, or its logarithm, along an axis, in place.
void softmax(std::vector<double>& x, std::span<const int64_t> dims, int64_t axis, bool log);

// Softmax over runs of `n` elements; runs of -inf only give 0.
void softmax_run(double* x, int64_t n);

}  // namespace rlxc::eval
