// Kernels that need statistics of a row before they can write it: softmax and the norms.
#pragma once
#include <optional>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// exp(x - max) / sum along one axis, or x - max - log(sum).
struct SoftmaxSpec {
  Dims shape;
  size_t axis = 0;
  DType dtype = DType::F32;
  bool log = false;
};
void build_softmax(Builder&, const SoftmaxSpec&, const Mapping&);  // adds x, y

// (x - mean) / sqrt(variance + eps) * gamma + beta, or x / sqrt(mean(x^2) + eps) * gamma + beta, over rows of outer x inner
// elements that lie together. gamma and beta are per inner element, or per outer one, and may differ from row to row.
struct NormSpec {
  Index rows = 1, outer = 1, inner = 1;
  DType input = DType::F32, output = DType::F32;
  bool centred = true;  // layer norm; else rms norm
  double eps = 1e-5;
  // Added to x first: operands with strides [row, outer, inner]. Then the sum is a second result.
  std::vector<Operand> addends;
  std::optional<Operand> gamma, beta;  // strides [row, outer, inner]; a row is taken modulo row_groups where that is set
  Index row_groups = 0;
};
void build_norm(Builder&, const NormSpec&, const Mapping&);  // adds x, addends, [gamma], [beta], y, [sum]

// Pairs (a, b) of the two halves of a row, turned by an angle: (a*cos - b*sin, b*cos + a*sin), each element of the row first
// divided by sqrt(mean(x^2) + eps) and multiplied by gamma. Operands have strides [rows..., pair].
struct RotateNormSpec {
  Dims rows;
  Index pairs = 1;
  Operand x[2], cosine[2], sine[2], gamma[2], y[2];
  double eps = 1e-5;
};
void build_rotate_norm(Builder&, const RotateNormSpec&,
                       const Mapping&);  // adds x, x, cosine, sine, cosine, sine, gamma, gamma, y, y

}  // namespace rlxc::kernel
