// The elementwise ops that are fused with the anchor of a kernel (a matmul, convolution, reduction, norm, ...). A builder asks
// the prologue for the value of an element that it reads, and hands what it computed for an element of the result, the roots, to
// the epilogue, whose values it stores. Which ops these are is known to the lowering alone, which describes them once for all
// kernels of an op.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Returns the values of the fused ops at an element, or at neighbours. `load` returns an input there, in its compute type.
using FusedBody = std::function<std::vector<Expr>(std::span<const Expr> roots, const LoadInput& load)>;

// Where a spec has inputs of its own, those of a prologue or epilogue follow them in `load`.
struct Prologue {
  std::vector<Operand> inputs = {};
  FusedBody body = {};  // the value of an element, from the element as it is stored; null: the element
};

struct Epilogue {
  std::vector<Operand> inputs = {};  // strides over the index space of the results
  std::vector<Operand> also = {};    // results after the first one, laid out as it is
  FusedBody body = {};               // a value per result, cast to its type; null: the root
};

// Applies `next` to the first value of the epilogue. Its `also` is empty.
void append(Epilogue*, Epilogue next);

// Returns v quantized by the inputs scale and zero point from `first` on, and dequantized by the one after them if `back`.
Expr quantized(Expr v, const LoadInput& load, size_t first, bool back);

// Inputs of a prologue or epilogue as arguments of a kernel.
class FusedInputs {
 public:
  FusedInputs() = default;
  // Adds the arguments, except of views.
  FusedInputs(Builder&, const std::vector<Operand>&);

  size_t size() const { return operands_.size(); }
  const Operand& operand(size_t i) const { return operands_[i]; }
  // Input i from place `at` of its buffer on, in its compute type.
  Expr load(size_t i, Expr at, int lanes = 1) const;
  Expr gather(size_t i, Expr places) const;
  // All inputs at a point of the index space; lanes along its last axis, one where an input is repeated there.
  std::vector<Expr> load_all(const std::vector<Expr>& index, int lanes = 1) const;
  // The values of a body at a point, or at neighbours along the last axis.
  std::vector<Expr> values(const FusedBody&, std::span<const Expr> roots, const std::vector<Expr>& index) const;

 private:
  std::vector<Operand> operands_;
  std::vector<Buf> bufs_;
};

// Returns the values of a body, given those of its inputs.
std::vector<Expr> fused_values(const FusedBody&, std::span<const Expr> roots, const std::vector<Expr>& inputs);

}  // namespace rlxc::kernel
