// Matmuls.
#include "import/onnx/broadcast.h"
#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {

// Gives vectors a second axis for the matmul, because MIR matrices have two, and drops it from the result.
void matmul(Op& op) {
  ValueId a = op.in(0), b = op.in(1);
  const int ra = op.rank(0), rb = op.rank(1);
  if (ra == 0 || rb == 0) return (void)op.fail(Code::BadShape, "operands need an axis: " + op.show(0) + ", " + op.show(1));
  if (ra == 1) a = op.b.reshape(a, {Dim(1), op.sizes(0)[0]});
  if (rb == 1) b = op.b.reshape(b, {op.sizes(1)[0], Dim(1)});
  const auto operands = broadcast_operands(op, {a, b}, 2);
  ValueId y = op.b.matmul(operands[0], operands[1]);
  if (y.valid() && (ra == 1 || rb == 1)) {
    std::vector<Dim> out(op.graph().dims(y).begin(), op.graph().dims(y).end());
    if (rb == 1) out.pop_back();
    if (ra == 1) out.erase(out.end() - (rb == 1 ? 1 : 2));
    y = op.b.reshape(y, std::move(out));
  }
  op.set(0, y);
}

void det(Op& op) { op.set(0, op.b.unary(OpKind::Det, op.in(0))); }

void gemm(Op& op) {
  if (op.rank(0) != 2 || op.rank(1) != 2)
    return (void)op.fail(Code::BadShape, "a and b need two axes: " + op.show(0) + ", " + op.show(1));
  const DType t = op.dtype(0);
  ValueId y = op.b.matmul(op.in(0), op.in(1), op.i("transA", 0) != 0, op.i("transB", 0) != 0);
  const double alpha = op.f("alpha", 1), beta = op.f("beta", 1);
  if (alpha != 1) y = op.b.mul(y, op.b.scalar(t, alpha));
  if (op.has(2) && beta != 0) {
    ValueId c = op.in(2);
    if (beta != 1) c = op.b.mul(c, op.b.scalar(t, beta));
    y = broadcast(op, OpKind::Add, {y, c});
  }
  op.set(0, y);
}

}  // namespace rlxc::onnx_import
