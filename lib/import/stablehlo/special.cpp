// Error functions of the dialect chlo, as XLA expands them.
#include <cmath>

#include "import/stablehlo/importer.h"

namespace rlxc::stablehlo_import {
namespace {

Value polynomial(Op& op, const Value& x, std::span<const double> coefficients) {
  Value y = op.scalar_like(x, coefficients[0]);
  for (const double c : coefficients.subspan(1)) y = op.add(op.mul(y, x), op.scalar_like(x, c));
  return y;
}

bool takes_float(Op& op) { return op.needs(1) && (is_float(op.in(0).dtype) || op.fail(Code::BadType, "it takes floats")); }

// Whether v is -x * sqrt(1/2), as in gelu; sets x * sqrt(1/2).
bool is_of_gelu(Op& op, const Value& v, Value* positive) {
  const Graph& g = *v.block->graph;
  const NodeId n = g.def(v.id);
  if (v.block != &op.im.block() || g.op(n) != OpKind::Mul) return false;
  for (const size_t i : {0, 1}) {
    const NodeId negated = g.def(g.operand(n, i)), constant = g.def(g.operand(n, 1 - i));
    if (g.op(negated) != OpKind::Neg || g.op(constant) != OpKind::Constant) continue;
    const TensorData& data = op.im.module().data[g.attrs<DataAttrs>(constant).data];
    if (data.elements() != 1 || std::abs(element_as_double(data, 0) - M_SQRT1_2) > 1e-3) continue;
    const ValueId x = g.operand(negated, 0), c = g.operand(n, 1 - i);
    *positive = op.with_dims(op.b().mul(x, c), v.dims);
    return true;
  }
  return false;
}

// 1 - erf(x) loses digits of small results. From 1 on, exp(-x^2)/x times a polynomial of 1/x^2 (Cephes), which has those of f32.
void erfc(Op& op) {
  static constexpr double kNear[] = {2.326819970068386e-2,  -1.387039388740657e-1, 3.687424674597105e-1,
                                     -5.824733027278666e-1, 6.210004621745983e-1,  -4.944515323274145e-1,
                                     3.404879937665872e-1,  -2.741127028184656e-1, 5.638259427386472e-1};
  static constexpr double kFar[] = {-1.047766399936249e+1, 1.297719955372516e+1, -7.495518717768503e+0, 2.921019019210786e+0,
                                    -1.015265279202700e+0, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1};
  if (!takes_float(op)) return;
  const DType t = op.in(0).dtype;
  if (Value x; is_of_gelu(op, op.in(0), &x)) return op.set(0, op.add(op.scalar(t, 1), op.elementwise(OpKind::Erf, {x})));
  const Value x = op.cast(op.in(0), bits(t) < 32 ? DType::F32 : t), one = op.scalar_like(x, 1);
  const Value simple = op.sub(one, op.elementwise(OpKind::Erf, {x}));
  if (t == DType::F64) return op.set(0, simple);
  const Value size = op.elementwise(OpKind::Abs, {x}),
              power = op.elementwise(OpKind::Exp, {op.elementwise(OpKind::Neg, {op.mul(x, x)})});
  const Value q = op.elementwise(OpKind::Div, {one, size}), y = op.mul(q, q);
  const Value p =
      op.select(op.elementwise(OpKind::Lt, {size, op.scalar_like(x, 2)}), polynomial(op, y, kNear), polynomial(op, y, kFar));
  const Value tail = op.mul(op.mul(power, q), p);
  const Value whole = op.select(op.elementwise(OpKind::Lt, {x, op.scalar_like(x, 0)}), op.sub(op.scalar_like(x, 2), tail), tail);
  op.set(0, op.cast(op.select(op.elementwise(OpKind::Lt, {size, one}), simple, whole), t));
}

// Giles, Approximating the erfinv function, for f32; a step of Newton's method for f64.
void erf_inv(Op& op) {
  static constexpr double kCentre[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                       -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  static constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                     -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  if (!takes_float(op)) return;
  const DType t = op.in(0).dtype;
  const Value x = op.cast(op.in(0), bits(t) < 32 ? DType::F32 : t), one = op.scalar_like(x, 1);
  const Value w = op.elementwise(OpKind::Neg, {op.elementwise(OpKind::Log1p, {op.elementwise(OpKind::Neg, {op.mul(x, x)})})});
  const Value near = polynomial(op, op.sub(w, op.scalar_like(x, 2.5)), kCentre);
  const Value far = polynomial(op, op.sub(op.elementwise(OpKind::Sqrt, {w}), op.scalar_like(x, 3)), kTail);
  Value y = op.mul(op.select(op.elementwise(OpKind::Lt, {w, op.scalar_like(x, 5)}), near, far), x);
  for (int step = 0; t == DType::F64 && step < 2; ++step) {
    const Value slope =
        op.mul(op.scalar_like(x, M_2_SQRTPI), op.elementwise(OpKind::Exp, {op.elementwise(OpKind::Neg, {op.mul(y, y)})}));
    y = op.sub(y, op.elementwise(OpKind::Div, {op.sub(op.elementwise(OpKind::Erf, {y}), x), slope}));
  }
  const Value end = op.elementwise(OpKind::Eq, {op.elementwise(OpKind::Abs, {x}), one});
  op.set(0, op.cast(op.select(end, op.mul(x, op.scalar_like(x, INFINITY)), y), t));
}

constexpr OpRow kSpecialRows[] = {{"erf_inv", erf_inv, true}, {"erfc", erfc, true}};

}  // namespace

std::span<const OpRow> special_rows() { return kSpecialRows; }

}  // namespace rlxc::stablehlo_import
