// Kernels that need statistics of a row before they write it: softmax and norms.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {

// exp(x - max) / sum along one axis, or x - max - log(sum).
struct SoftmaxSpec {
  Dims shape;
  size_t axis = 0;
  DType dtype = DType::F32;
  bool log = false;
  std::optional<RoundingOperands> rounding = {};
};
void build_softmax(Builder&, const SoftmaxSpec&, const Mapping&);  // adds x, [scale, zero], y

// (v - mean) / sqrt(variance + eps), v / sqrt(mean(v^2) + eps), or (log-)softmax of v, over the last axes of v = before(inputs).
// Norms are chained over one row: `before` may read earlier norms, none of them a softmax. `after` computes the result from all.
// With `keep` the last v is a second output, computed once and read back. Further outputs are `also` of all.
enum class RowNorm : uint8_t { Centred, RootMeanSquare, Softmax, LogSoftmax };
struct NormSpec : RowSpec {
  using Normalised = std::vector<Expr>;  // normalised values by norm, at one element
  struct Norm {
    RowNorm kind = RowNorm::Centred;
    double eps = 1e-5;
    std::function<Expr(const Normalised&, const LoadInput&)> before;
  };
  std::vector<Norm> norms;
  using After = std::function<Expr(const Normalised&, const LoadInput&)>;
  After after;  // null: the last norm is the result
  bool keep = false;
  std::vector<After> also;
};
void build_norm(Builder&, const NormSpec&, const Mapping&);  // adds inputs, outputs

// Rotates pairs (a, b) of the two halves of a row: (a*cos - b*sin, b*cos + a*sin). Each element is first divided by
// sqrt(mean(x^2) + eps) and multiplied by gamma. Operands have strides [rows..., pair], those of `ends` one number for each row.
struct RotateNormSpec {
  Dims rows;
  Index pairs = 1;
  Operand x[2], cosine[2], sine[2], gamma[2], y[2];
  double eps = 1e-5;
  std::vector<Operand> ends;                                    // of `end`
  std::function<Expr(Expr v, std::span<const Expr> ends)> end;  // computes an element of the result; may be null
};
// Adds x, x, cosine, sine, cosine, sine, gamma, gamma, ends, y, y.
void build_rotate_norm(Builder&, const RotateNormSpec&, const Mapping&);

}  // namespace rlxc::kernel
