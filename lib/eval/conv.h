// Convolution on arrays of numbers, shared by the convolutions, fused convolutions and QConv.
#pragma once
#include "eval/context.h"

namespace rlxc::eval {

// Cross-correlation of x [N,Ci,...] and w [Co,Ci/groups,...], without bias. `dims`: result dims.
template <class V>
std::vector<V> convolve(const std::vector<V>& x, std::span<const int64_t> x_dims, const std::vector<V>& w,
                        std::span<const int64_t> w_dims, const ConvAttrs&, std::span<const int64_t> dims);

// Transposed convolution of x [N,Ci,...] and w [Ci,Co/groups,...], without bias.
std::vector<double> convolve_transposed(const std::vector<double>& x, std::span<const int64_t> x_dims,
                                        const std::vector<double>& w, std::span<const int64_t> w_dims, const ConvAttrs&,
                                        std::span<const int64_t> dims);
bool charge_transposed(Context&);  // charges its work on operands 0 and 1

// Adds bias[channel] unless it is empty.
void add_channel_bias(std::vector<double>& y, std::span<const int64_t> dims, const std::vector<double>& bias);

}  // namespace rlxc::eval
