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
  DType result = DType::F32;
  Epilogue epilogue = {};  // whose inputs have one element
};
void build_softmax(Builder&, const SoftmaxSpec&, const Mapping&);  // adds x, inputs of the epilogue, y

// (v - mean) / sqrt(variance + eps), v / sqrt(mean(v^2) + eps), or (log-)softmax over the last axes of v, which the prologue
// computes. Norms are chained over one row: the roots of a prologue are the normalised values of earlier norms, none of them a
// softmax, those of the epilogue the values of all norms. With `keep` the last v is a second output, computed once and read back,
// before the further outputs of the epilogue.
enum class RowNorm : uint8_t { Centred, RootMeanSquare, Softmax, LogSoftmax };
struct NormSpec : RowSpec {
  struct Norm {
    RowNorm kind = RowNorm::Centred;
    double eps = 1e-5;
    Prologue prologue;
  };
  std::vector<Norm> norms;
  Epilogue epilogue;  // null: the last norm is the result
  bool keep = false;
};
void build_norm(Builder&, const NormSpec&, const Mapping&);  // adds inputs, outputs

// Rotates pairs (a, b) of the two halves of a row: (a*cos - b*sin, b*cos + a*sin). Each element is first divided by
// sqrt(mean(x^2) + eps) and multiplied by gamma. Operands have strides [rows..., pair], inputs of the epilogue one number for
// each row.
struct RotateNormSpec {
  Dims rows;
  Index pairs = 1;
  Operand x[2], cosine[2], sine[2], gamma[2], y[2];
  double eps = 1e-5;
  Epilogue epilogue = {};  // of an element of either half
};
// Adds x, x, cosine, sine, cosine, sine, gamma, gamma, inputs of the epilogue, y, y.
void build_rotate_norm(Builder&, const RotateNormSpec&, const Mapping&);

}  // namespace rlxc::kernel
