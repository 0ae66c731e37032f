// Elementwise operators, and operators that only rename a value.
#include "import/onnx/broadcast.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {

// y = kind(x), with the row's parameters.
void unary(Op& op) {
  if (std::holds_alternative<AlphaBetaAttrs>(default_attrs(op.row.kind))) {
    AlphaBetaAttrs a{op.row.alpha, op.row.beta};
    if (!op.row.alpha_name.empty()) a.alpha = op.f(op.row.alpha_name, a.alpha);
    if (!op.row.beta_name.empty()) a.beta = op.f(op.row.beta_name, a.beta);
    op.set(0, op.b.create(op.row.kind, {op.in(0)}, a));
  } else {
    op.set(0, op.b.unary(op.row.kind, op.in(0)));
  }
}

namespace {

// Before opset 7, `broadcast` = 1 aligned the second operand to `axis` of the first.
ValueId legacy_aligned(Op& op, ValueId b) {
  if (op.opset >= 7 || !op.has_attr("axis") || op.i("broadcast", 0) == 0 || !b.valid()) return b;
  const auto axis = op.axis(op.i("axis", 0), op.rank(0));
  if (!axis) return {};
  std::vector<Dim> sizes = op.sizes(1);
  if (*axis + op.rank(1) > op.rank(0)) {
    op.fail(Code::BadShape, "the second operand does not fit at this axis");
    return ValueId();
  }
  sizes.resize(static_cast<size_t>(op.rank(0) - *axis), Dim(1));
  return op.b.reshape(b, std::move(sizes));
}

}  // namespace

void binary(Op& op) {
  const ValueId a = op.in(0);
  ValueId b = legacy_aligned(op, op.in(1));
  // Slopes per channel in old opsets; later ones broadcast.
  if (op.row.kind == OpKind::PRelu && op.opset < 7 && op.rank(1) == 1 && op.rank(0) > 1 && b.valid()) {
    std::vector<Dim> per_channel(static_cast<size_t>(op.rank(0)) - 1, Dim(1));
    per_channel[0] = op.sizes(1)[0];
    b = op.b.reshape(b, std::move(per_channel));
  }
  op.set(0, broadcast(op, op.row.kind, {a, b}));
}

void negated_compare(Op& op) { op.set(0, op.b.unary(OpKind::Not, broadcast(op, op.row.kind, {op.in(0), op.in(1)}))); }

void pow(Op& op) {
  const ValueId a = op.in(0);
  ValueId b = op.in(1);
  // Since opset 12 the exponent may have another type. A cast to the base's type is exact between floats, or between integers.
  if (op.dtype(0) != op.dtype(1) && (is_float(op.dtype(0)) || (is_integer(op.dtype(0)) && is_integer(op.dtype(1)))))
    b = op.b.cast(b, op.dtype(0));
  op.set(0, broadcast(op, OpKind::Pow, {a, legacy_aligned(op, b)}));
}

void variadic(Op& op) {
  ValueId v = op.in(0);
  for (size_t i = 1; i < op.inputs(); ++i) v = broadcast(op, op.row.kind, {v, op.in(i)});
  if (op.inputs() == 1) op.set_ref(0, op.ref(0));
  else op.set(0, v);
}

void mean(Op& op) {
  ValueId v = op.in(0);
  for (size_t i = 1; i < op.inputs(); ++i) v = broadcast(op, OpKind::Add, {v, op.in(i)});
  op.set(0, op.b.div(v, op.b.scalar(op.dtype(0), static_cast<double>(op.inputs()))));
}

void affine_scale(Op& op) {  // com.microsoft / early ai.onnx: alpha*x + beta
  const DType t = op.dtype(0);
  op.set(0, op.b.add(op.b.mul(op.in(0), op.b.scalar(t, op.f("alpha", 1))), op.b.scalar(t, op.f("beta", 0))));
}

// x [N,C,H,W] times `scale`, plus a bias per channel. In early opsets.
void image_scaler(Op& op) {
  const auto bias = op.floats("bias");
  const DType t = op.dtype(0);
  if (op.rank(0) != 4) return (void)op.fail(Code::BadShape, "needs [N,C,H,W]: " + op.show(0));
  const ValueId y = op.b.mul(op.in(0), op.b.scalar(t, op.f("scale", 1)));
  const auto channels = static_cast<int64_t>(bias.size());
  const ValueId shift = op.b.reshape(op.b.constant(make_data(DType::F64, {channels}, bias)), {Dim(channels), Dim(1), Dim(1)});
  op.set(0, op.b.add(y, op.b.cast(shift, t)));
}

void parametric_softplus(Op& op) {  // alpha * softplus(beta * x)
  const DType t = op.dtype(0);
  const ValueId inner = op.b.mul(op.in(0), op.b.scalar(t, op.f("beta", 1)));
  op.set(0, op.b.mul(op.b.unary(OpKind::Softplus, inner), op.b.scalar(t, op.f("alpha", 1))));
}

void scaled_tanh(Op& op) {  // alpha * tanh(beta * x)
  const DType t = op.dtype(0);
  const ValueId inner = op.b.mul(op.in(0), op.b.scalar(t, op.f("beta", 1)));
  op.set(0, op.b.mul(op.b.unary(OpKind::Tanh, inner), op.b.scalar(t, op.f("alpha", 1))));
}

// Bounds are attributes up to opset 10, then optional operands. Constant scalar bounds become attributes.
void clip(Op& op) {
  ClampAttrs a;
  if (op.opset < 11) {
    a.min = op.f("min", a.min);
    a.max = op.f("max", a.max);
    return op.set(0, op.b.create(OpKind::Clamp, {op.in(0)}, a));
  }
  ValueId v = op.in(0);
  const auto low = op.known_reals(1), high = op.known_reals(2);
  const bool constant =
      (!op.has(1) || (low && low->size() == 1)) && (!op.has(2) || (high && high->size() == 1)) && is_float(op.dtype(0));
  if (constant) {
    if (low) a.min = (*low)[0];
    if (high) a.max = (*high)[0];
    if (!low && !high) return op.set_ref(0, op.ref(0));
    return op.set(0, op.b.create(OpKind::Clamp, {v}, a));
  }
  if (op.has(1)) v = op.b.create(OpKind::Max, {v, op.in(1)});
  if (op.has(2)) v = op.b.create(OpKind::Min, {v, op.in(2)});
  if (!op.has(1) && !op.has(2)) op.set_ref(0, op.ref(0));
  else op.set(0, v);
}

namespace {

// Casts to powers of two with `round_mode`: rounds the exponent with bit arithmetic. Ignores signs. Infinity and NaN become NaN;
// with `saturate`, finite values do not.
void cast_to_exponent(Op& op) {
  static constexpr std::string_view kModes[] = {"up", "down", "nearest"};
  size_t mode = 0;
  if (!op.choose("round_mode", op.s("round_mode", "up"), kModes, &mode)) return;
  Builder& b = op.b;
  const auto number = [&](int v) { return b.scalar(DType::I32, v); };
  const ValueId bits = b.create(OpKind::BitCast, {b.cast(op.in(0), DType::F32)}, CastAttrs{DType::I32, true});
  const auto field = [&](int mask) { return b.create(OpKind::BitAnd, {bits, number(mask)}); };
  const ValueId exponent = b.create(OpKind::BitAnd, {b.create(OpKind::Shr, {bits, number(23)}), number(255)});
  const ValueId limit = number(op.i("saturate", 1) != 0 ? 254 : 255);
  ValueId up = b.create(OpKind::Gt, {field(0x7FFFFF), number(mode == 0 ? 0 : 0x7FFFFF)});
  if (mode == 2) {  // at least half; more than half for subnormals
    const ValueId half =
        b.create(OpKind::Where, {b.create(OpKind::Eq, {exponent, number(0)}), number(0x400001), number(0x400000)});
    up = b.create(OpKind::Ge, {field(0x7FFFFF), half});
  }
  const ValueId step = b.cast(b.create(OpKind::And, {up, b.create(OpKind::Lt, {exponent, limit})}), DType::I32);
  const ValueId code = b.cast(b.add(exponent, step), DType::U8);
  op.set(0, b.create(OpKind::BitCast, {code}, CastAttrs{DType::F8E8M0, true}));
}

void cast_to(Op& op, DType to) {
  if (op.dtype(0) == to) return op.set_ref(0, op.ref(0));
  if (to == DType::F8E8M0 && op.dtype(0) != DType::String) return cast_to_exponent(op);
  op.set(0, op.b.create(OpKind::Cast, {op.in(0)}, CastAttrs{to, op.i("saturate", 1) != 0}));
}

}  // namespace

void cast(Op& op) {
  std::optional<DType> to;
  const AttributeView* a = op.node().attribute("to");
  if (a && a->type == AttrType::String)
    to = dtype_from_name(a->s == "FLOAT"    ? "f32"
                         : a->s == "INT64"  ? "i64"
                         : a->s == "INT32"  ? "i32"
                         : a->s == "DOUBLE" ? "f64"
                                            : a->s);
  else to = dtype_from_onnx(static_cast<int>(op.i("to", 0) & 0xFFFF));
  if (!to) return (void)op.fail(Code::BadAttribute, "attribute \"to\" is not a known element type");
  cast_to(op, *to);
}

void cast_like(Op& op) { cast_to(op, op.dtype(1)); }

void where(Op& op) { op.set(0, broadcast(op, OpKind::Where, {op.in(0), op.in(1), op.in(2)})); }

void mod(Op& op) {
  const bool fmod = op.i("fmod", 0) != 0;
  if (!fmod && is_float(op.dtype(0))) return (void)op.fail(Code::BadAttribute, "fmod must be 1 for floats");
  op.set(0, broadcast(op, fmod ? OpKind::Fmod : OpKind::Mod, {op.in(0), op.in(1)}));
}

void bit_shift(Op& op) {
  const std::string_view d = op.s("direction", "");
  if (d != "LEFT" && d != "RIGHT")
    return (void)op.fail(Code::BadAttribute, "direction is " + quote(d) + ", must be LEFT or RIGHT");
  op.set(0, broadcast(op, d == "LEFT" ? OpKind::Shl : OpKind::Shr, {op.in(0), op.in(1)}));
}

void is_inf(Op& op) {
  AlphaBetaAttrs a;
  a.alpha = op.i("detect_negative", 1) != 0;
  a.beta = op.i("detect_positive", 1) != 0;
  op.set(0, op.b.create(OpKind::IsInf, {op.in(0)}, a));
}

void is_nan(Op& op) { op.set(0, op.b.unary(OpKind::IsNan, op.in(0))); }

void gelu(Op& op) {
  const std::string_view mode = op.s("approximate", "none");
  if (mode != "none" && mode != "tanh")
    return (void)op.fail(Code::BadAttribute, "approximate is " + quote(mode) + ", must be none or tanh");
  op.set(0, op.b.unary(mode == "none" ? OpKind::Gelu : OpKind::GeluApprox, op.in(0)));
}

void swiglu(Op& op) {
  op.set(0, op.b.mul(op.b.create(OpKind::Swish, {op.in(0)}, AlphaBetaAttrs{op.f("alpha", 1), 0}), op.in(1)));
}

void shrink(Op& op) {                            // MIR: alpha is the threshold, beta the bias
  const DType t = op.b.graph().dtype(op.in(0));  // the parameters are floats
  const ValueId x = is_float(t) ? op.in(0) : op.b.cast(op.in(0), DType::F64);
  op.set(0, op.b.cast(op.b.create(OpKind::Shrink, {x}, AlphaBetaAttrs{op.f("lambd", 0.5), op.f("bias", 0)}), t));
}

void identity(Op& op) { op.set_ref(0, op.ref(0)); }

void bit_cast(Op& op) {
  const auto to = dtype_from_onnx(static_cast<int>(op.i("to", 0) & 0xFFFF));
  if (!to) return (void)op.fail(Code::BadAttribute, "attribute \"to\" is not a known element type");
  op.set(0, op.b.create(OpKind::BitCast, {op.in(0)}, CastAttrs{*to}));
}

void equal(Op& op) {
  if (op.dtype(0) != DType::String) return binary(op);
  op.set(0, broadcast(op, OpKind::StringEqual, {op.in(0), op.in(1)}));
}

void hardmax(Op& op) {  // 1 at the first maximum along the axis
  ValueId x = op.in(0);
  const auto axis = op.axis(op.i("axis", op.opset < 13 ? 1 : -1), op.rank(0));
  if (!axis) return;
  const auto sizes = op.sizes(0);
  int64_t a = *axis;
  if (op.opset < 13) {
    const auto cut = sizes.begin() + *axis;
    x = op.b.reshape(x, {op.dims().product({sizes.begin(), cut}), op.dims().product({cut, sizes.end()})});
    a = 1;
  }
  const std::vector<Dim> shape =
      x.valid() ? std::vector<Dim>(op.graph().dims(x).begin(), op.graph().dims(x).end()) : std::vector<Dim>();
  if (!x.valid()) return;
  const ValueId index = op.b.create(OpKind::ArgReduce, {x}, ArgAttrs{a, true, false, false});
  const ValueId values = op.b.constant(make_data(op.dtype(0), {2}, [&] {
    auto bytes = element_bytes(op.dtype(0), 0);
    const auto one = element_bytes(op.dtype(0), 1);
    bytes.insert(bytes.end(), one.begin(), one.end());
    return bytes;
  }()));
  const ValueId hot = op.b.create(OpKind::OneHot, {index, values}, OneHotAttrs{a, shape[static_cast<size_t>(a)]});
  op.set(0, op.b.reshape(hot, sizes));
}

}  // namespace rlxc::onnx_import
