// Random numbers. ONNX does not specify the generator. This is NumPy's RandomState, seeded by the attribute or by a hash of the
// result's name: a model yields the same numbers everywhere.
#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {
namespace {

int64_t seed_of(Op& op) {
  if (const AttributeView* a = op.node().attribute("seed")) return a->type == AttrType::Int ? a->i : static_cast<int64_t>(a->f);
  uint32_t h = 2166136261u;
  for (std::string_view name : op.node().outputs)
    for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}

ValueId uniform(Op& op, DType t, std::vector<Dim> dims) {
  RandomAttrs a;
  a.dims = std::move(dims);
  a.to = t;
  a.seed = seed_of(op);
  return op.b.create(OpKind::Random, {}, std::move(a));
}

void numbers(Op& op, DType t, std::vector<Dim> dims) {
  RandomAttrs a;
  a.dims = std::move(dims);
  a.to = t;
  a.seed = seed_of(op);
  a.normal = op.row.alpha != 0;
  a.a = a.normal ? op.f("mean", 0) : op.f("low", 0);
  a.b = a.normal ? op.f("scale", 1) : op.f("high", 1);
  op.set(0, op.b.create(OpKind::Random, {}, std::move(a)));
}

std::optional<DType> result_type(Op& op, DType fallback) {
  const auto t = op.has_attr("dtype") ? dtype_from_onnx(static_cast<int>(op.i("dtype", 1) & 0xFFFF)) : fallback;
  if (!t) op.fail(Code::BadAttribute, "attribute \"dtype\" is not a known element type");
  return t;
}

}  // namespace

// RandomUniform, RandomNormal (row alpha 1).
void random(Op& op) {
  std::vector<Dim> dims;
  for (int64_t v : op.ints("shape")) {
    if (v < 0 || v > Dim::kMax) return (void)op.fail(Code::BadAttribute, "size " + std::to_string(v) + " is out of range");
    dims.emplace_back(v);
  }
  if (const auto t = result_type(op, DType::F32)) numbers(op, *t, std::move(dims));
}

void random_like(Op& op) {
  if (const auto t = result_type(op, op.dtype(0))) numbers(op, *t, op.sizes(0));
}

void bernoulli(Op& op) {
  const auto t = result_type(op, op.dtype(0));
  if (t) op.set(0, op.b.cast(op.b.create(OpKind::Lt, {uniform(op, op.dtype(0), op.sizes(0)), op.in(0)}), *t));
}

// Returns the first class whose cumulative probability exceeds a uniform number.
void multinomial(Op& op) {
  const auto t = result_type(op, DType::I32);
  const int64_t samples = op.i("sample_size", 1);
  if (!t) return;
  if (op.rank(0) != 2 || samples < 1)
    return (void)op.fail(Code::BadShape, "needs [batch, classes] and a sample_size >= 1: " + op.show(0));
  const Dim batch = op.sizes(0)[0], classes = op.sizes(0)[1];
  const ValueId p = op.b.create(OpKind::Cumsum, {op.b.create(OpKind::Softmax, {op.in(0)}, AxisAttrs{1})}, CumAttrs{1});
  const ValueId u = uniform(op, op.dtype(0), {batch, Dim(samples), Dim(1)});
  const ValueId below = op.b.cast(op.b.create(OpKind::Le, {op.b.reshape(p, {batch, Dim(1), classes}), u}), DType::I64);
  const ValueId index = op.b.reduce(ReduceOp::Sum, below, {2}, false);
  const ValueId last = op.b.sub(op.b.create(OpKind::DimValue, {}, DimsAttrs{{classes}, true}), op.b.scalar(DType::I64, 1));
  op.set(0, op.b.cast(op.b.create(OpKind::Min, {index, last}), *t));
}

// Inference: identity, and a mask of ones (before opset 12, as in onnxruntime, of zeros). Training (an operand since opset 12):
// drops each element with probability `ratio` and scales the others.
void dropout(Op& op) {
  bool training = false;
  op.i("is_test", 1);  // of opsets 1 and 6, which models leave at 0 for inference, too
  double ratio = 0.5;
  if (op.has(2)) {
    const auto on = op.need_reals(2, "training mode");
    if (!on || on->empty()) return;
    training = (*on)[0] != 0;
  }
  if (training && op.has(1)) {
    const auto r = op.need_reals(1, "ratio");
    if (!r || r->empty()) return;
    ratio = (*r)[0];
    if (!(ratio >= 0 && ratio < 1)) return (void)op.fail(Code::BadAttribute, "the ratio must be at least 0 and less than 1");
  }
  const DType mask_type = op.opset >= 10 ? DType::Bool : op.dtype(0);
  if (!training || ratio == 0) {
    op.set_ref(0, op.ref(0));
    if (op.wants(1)) op.set(1, op.b.expand(op.b.scalar(mask_type, op.opset >= 12), op.sizes(0)));
    return;
  }
  const DType t = op.dtype(0);
  const ValueId kept = op.b.create(OpKind::Ge, {uniform(op, DType::F64, op.sizes(0)), op.b.scalar(DType::F64, ratio)});
  const ValueId scaled = op.b.mul(op.in(0), op.b.scalar(t, 1 / (1 - ratio)));
  op.set(0, op.b.create(OpKind::Where, {kept, scaled, op.b.scalar(t, 0)}));
  if (op.wants(1)) op.set(1, op.b.cast(kept, mask_type));
}

}  // namespace rlxc::onnx_import
