// Kernels that need statistics of a row before they can write it: softmax and the norms.
#pragma once
#include <functional>
#include <vector>

#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {

// exp(x - max) / sum along one axis, or x - max - log(sum).
struct SoftmaxSpec {
  Dims shape;
  size_t axis = 0;
  DType dtype = DType::F32;
  bool log = false;
};
void build_softmax(Builder&, const SoftmaxSpec&, const Mapping&);  // adds x, y

// (v - mean) / sqrt(variance + eps), v / sqrt(mean(v^2) + eps), or the softmax of v or its logarithm, over the last axes of
// v = before(inputs). Several follow each other over one row: what is before one may read those before it, none of them a
// softmax. The result is `after` of all. Where the last v is a second output, it is computed once and read back.
enum class RowNorm : uint8_t { Centred, RootMeanSquare, Softmax, LogSoftmax };
struct NormSpec : RowSpec {
  using Normalised = std::vector<Expr>;  // by norm, at one element
  struct Norm {
    RowNorm kind = RowNorm::Centred;
    double eps = 1e-5;
    std::function<Expr(const Normalised&, const LoadInput&)> before;
  };
  std::vector<Norm> norms;
  std::function<Expr(const Normalised&, const LoadInput&)> after;  // null: nothing follows
};
void build_norm(Builder&, const NormSpec&, const Mapping&);  // adds inputs, outputs

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
