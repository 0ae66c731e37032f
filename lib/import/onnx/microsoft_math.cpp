// Numeric operators of com.microsoft.
#include <array>

#include "import/compose/solve.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {

void inverse(Op& op) {
  if (op.rank(0) < 2) return (void)op.fail(Code::BadShape, "needs matrices: " + op.show(0));
  const Dim n = op.sizes(0).back();
  const DType t = op.dtype(0), wide = t == DType::F64 ? t : DType::F32;
  const ValueId one = op.b.expand(compose::identity_matrix(op.b, wide, n), op.sizes(0));
  op.set(0, op.b.cast(compose::solve(op.b, op.b.cast(op.in(0), wide), one), t));
}

// Pairwise distances between the rows of a [M,K] and b [N,K].
void cdist(Op& op) {
  const std::string_view metric = op.s("metric", "sqeuclidean");
  if (op.rank(0) != 2 || op.rank(1) != 2) return (void)op.fail(Code::BadShape, "needs two matrices");
  if (metric != "sqeuclidean" && metric != "euclidean") return (void)op.unsupported("metric " + quote(metric));
  const auto a = op.sizes(0), b = op.sizes(1);
  const ValueId d = op.b.sub(op.b.reshape(op.in(0), {a[0], Dim(1), a[1]}), op.b.reshape(op.in(1), {Dim(1), b[0], b[1]}));
  const ValueId square = op.b.reduce(ReduceOp::Sum, op.b.mul(d, d), {2}, false);
  op.set(0, metric == "euclidean" ? op.b.unary(OpKind::Sqrt, square) : square);
}

// Complex products; real and imaginary parts are the last axis. Row alpha -1 conjugates the second operand.
void complex_mul(Op& op) {
  Builder& b = op.b;
  const auto parts = [&](size_t i, int64_t k) { return b.narrow(op.in(i), op.rank(i) - 1, Dim(k), Dim(1)); };
  if (op.rank(0) < 1 || op.rank(1) < 1 || op.sizes(0).back() != Dim(2) || op.sizes(1).back() != Dim(2))
    return (void)op.fail(Code::BadShape, "the last axis must hold two parts: " + op.show(0) + ", " + op.show(1));
  const ValueId ar = parts(0, 0), ai = parts(0, 1), br = parts(1, 0);
  const ValueId bi = op.row.alpha < 0 ? b.unary(OpKind::Neg, parts(1, 1)) : parts(1, 1);
  const ValueId re = b.sub(b.mul(ar, br), b.mul(ai, bi)), im = b.add(b.mul(ar, bi), b.mul(ai, br));
  if (re.valid()) op.set(0, b.concat(std::array{re, im}, op.graph().rank(re) - 1));
}

namespace {

bool one_signal_axis(Op& op) {
  if (op.i("signal_ndim", 1) != 1 || op.i("normalized", 0) != 0 || op.i("onesided", 1) != 1)
    return op.unsupported("other than one axis, not normalised, one-sided");
  return true;
}

}  // namespace

// x [..., n] -> [..., n/2+1, 2].
void rfft(Op& op) {
  if (!one_signal_axis(op)) return;
  std::vector<Dim> d = op.sizes(0);
  if (d.empty()) return (void)op.fail(Code::BadShape, "needs an axis");
  d.emplace_back(1);
  FftAttrs a;
  a.axis = op.rank(0) - 1, a.onesided = true;
  op.set(0, op.b.create(OpKind::Fft, {op.b.reshape(op.in(0), std::move(d))}, a));
}

// x [..., n/2+1, 2] -> [..., n] for even n.
void irfft(Op& op) {
  if (!one_signal_axis(op)) return;
  std::vector<Dim> d = op.sizes(0);
  if (d.size() < 2 || d.back() != Dim(2)) return (void)op.fail(Code::BadShape, "needs [..., bins, 2]: " + op.show(0));
  FftAttrs a;
  a.axis = op.rank(0) - 2, a.onesided = a.inverse = true, a.norm = FftNorm::InverseN;
  a.length = op.dims().mul(op.dims().sub(d[d.size() - 2], Dim(1)), Dim(2));
  const ValueId y = op.b.create(OpKind::Fft, {op.in(0)}, a);
  d.pop_back();
  d.back() = a.length;
  op.set(0, op.b.reshape(y, std::move(d)));
}

}  // namespace rlxc::onnx_import
