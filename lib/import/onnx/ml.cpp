// Numeric operators of ai.onnx.ml: linear models, scalers, features.
#include "import/onnx/ml.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr std::array<std::string_view, 2> kIntegerLabels = {"classlabels_ints", "classlabels_int64s"};

// exp(x-max)/sum, with scores near 0 mapped to x*exp(-max).
ValueId softmax_zero(Op& op, ValueId x) {
  Builder& b = op.b;
  const auto real = [&](double v) { return b.scalar(DType::F32, v); };
  const ValueId largest = b.reduce(ReduceOp::Max, x, {1}, true);
  const ValueId counts = b.create(OpKind::Gt, {b.unary(OpKind::Abs, x), real(1e-7)});
  const ValueId small = b.mul(x, b.unary(OpKind::Exp, b.unary(OpKind::Neg, largest)));
  const ValueId e = b.create(OpKind::Where, {counts, b.unary(OpKind::Exp, b.sub(x, largest)), small});
  const ValueId sum = b.reduce(ReduceOp::Sum, e, {1}, true);
  return b.create(OpKind::Where, {b.create(OpKind::Eq, {sum, real(0)}), real(0.5), b.div(e, sum)});
}

// Inverse normal CDF by Winitzki's approximation of the inverse error function (2008).
ValueId probit(Op& op, ValueId p) {
  Builder& b = op.b;
  const auto real = [&](double v) { return b.scalar(DType::F32, v); };
  constexpr double kA = 0.147;
  const ValueId x = b.sub(b.mul(p, real(2)), real(1)), rest = b.mul(b.sub(real(1), x), b.add(real(1), x));
  const ValueId log = b.unary(OpKind::Log, rest);
  const ValueId v = b.add(real(2 / (std::numbers::pi * kA)), b.mul(log, real(0.5)));
  const ValueId root = b.unary(OpKind::Sqrt, b.sub(b.mul(v, v), b.mul(log, real(1 / kA))));
  const ValueId y = b.mul(b.unary(OpKind::Sqrt, b.sub(root, v)), real(std::numbers::sqrt2));
  const ValueId signed_y = b.create(OpKind::Where, {b.create(OpKind::Lt, {x, real(0)}), b.unary(OpKind::Neg, y), y});
  return b.create(OpKind::Where, {b.create(OpKind::Eq, {rest, real(0)}), real(0), signed_y});
}

// x [rows, features] times coefficients [n, features] plus intercepts [n] (default 0).
ValueId linear(Op& op, int64_t n) {
  const auto coefficients = op.floats("coefficients"), intercepts = op.floats("intercepts");
  if (n < 1 || coefficients.empty() || static_cast<int64_t>(coefficients.size()) % n != 0) {
    op.fail(Code::BadAttribute, "the coefficients do not fit the number of results");
    return ValueId();
  }
  const ValueId w =
      op.b.reshape(real_vector(op, DType::F32, coefficients), {Dim(n), Dim(static_cast<int64_t>(coefficients.size()) / n)});
  const ValueId y = op.b.matmul(as_rows(op), w, false, true);
  return intercepts.empty() ? y : op.b.add(y, real_vector(op, DType::F32, intercepts));
}

}  // namespace

ValueId real_vector(Op& op, DType t, const std::vector<double>& values) {
  std::vector<std::byte> bytes;
  for (double v : values)
    for (std::byte x : element_bytes(t, v)) bytes.push_back(x);
  return op.im.materialise(op.im.constant(make_data(t, {static_cast<int64_t>(values.size())}, bytes)));
}

ValueId as_rows(Op& op, DType t) {
  if (op.rank(0) < 1 || op.rank(0) > 2) {
    op.fail(Code::BadShape, "needs [rows, features]: " + op.show(0));
    return ValueId();
  }
  const ValueId x = op.b.cast(op.in(0), t);
  return op.rank(0) == 1 ? op.b.reshape(x, {Dim(1), op.sizes(0)[0]}) : x;
}

ValueId post_transform(Op& op, ValueId scores) { return post_transform(op, scores, op.s("post_transform", "NONE")); }

ValueId post_transform(Op& op, ValueId scores, std::string_view name) {
  if (name == "NONE" || !scores.valid()) return scores;
  if (name == "LOGISTIC") return op.b.unary(OpKind::Sigmoid, scores);
  if (name == "SOFTMAX") return op.b.create(OpKind::Softmax, {scores}, AxisAttrs{1});
  if (name == "SOFTMAX_ZERO") return softmax_zero(op, scores);
  if (name == "PROBIT") return probit(op, scores);
  op.fail(Code::BadAttribute, "post_transform " + quote(name) + " is unknown");
  return ValueId();
}

ValueId first_largest(Op& op, ValueId scores) {
  return op.b.create(OpKind::ArgReduce, {scores}, ArgAttrs{1, true, false, false});
}

size_t class_count(Op& op) {
  for (std::string_view name : kIntegerLabels)
    if (const auto labels = op.ints(name); !labels.empty()) return labels.size();
  return op.strings("classlabels_strings").size();
}

ValueId class_labels(Op& op, ValueId classes) {
  for (std::string_view name : kIntegerLabels)
    if (const auto labels = op.ints(name); !labels.empty())
      return op.b.create(OpKind::Gather, {op.b.ints(labels), classes}, AxisAttrs{0});
  return op.b.create(OpKind::Gather, {op.string_vector(op.strings("classlabels_strings")), classes}, AxisAttrs{0});
}

void array_feature_extractor(Op& op) {
  if (op.rank(0) < 1) return (void)op.fail(Code::BadShape, "needs an axis: " + op.show(0));
  const ValueId index = op.b.reshape(op.in(1), {op.dims().product(op.sizes(1))});
  ValueId y = op.b.create(OpKind::Gather, {op.in(0), index}, AxisAttrs{op.rank(0) - 1});
  if (op.rank(0) == 1 && y.valid()) y = op.b.reshape(y, {Dim(1), op.dims().product(op.sizes(1))});
  op.set(0, y);
}

void binarizer(Op& op) {
  const DType t = op.dtype(0);
  op.set(0, op.b.cast(op.b.create(OpKind::Gt, {op.in(0), op.b.scalar(t, op.f("threshold", 0))}), t));
}

void scaler(Op& op) {  // (x - offset) * scale
  ValueId x = op.b.cast(op.in(0), DType::F32);
  if (const auto offset = op.floats("offset"); !offset.empty()) x = op.b.sub(x, real_vector(op, DType::F32, offset));
  if (const auto scale = op.floats("scale"); !scale.empty()) x = op.b.mul(x, real_vector(op, DType::F32, scale));
  op.set(0, x);
}

void normalizer(Op& op) {
  const ValueId x = op.b.cast(op.in(0), DType::F32);
  const std::string_view norm = op.s("norm", "MAX");
  const int64_t axis = op.rank(0) - 1;
  if (axis < 0) return (void)op.fail(Code::BadShape, "needs an axis: " + op.show(0));
  if (norm != "MAX" && norm != "L1" && norm != "L2") return (void)op.fail(Code::BadAttribute, "norm must be MAX, L1 or L2");
  const ValueId size = op.b.reduce(norm == "MAX" ? ReduceOp::Max : norm == "L1" ? ReduceOp::L1 : ReduceOp::L2, x, {axis}, true);
  const ValueId zero = op.b.scalar(DType::F32, 0);
  op.set(0, op.b.create(OpKind::Where, {op.b.create(OpKind::Eq, {size, zero}), x, op.b.div(x, size)}));
}

void linear_regressor(Op& op) { op.set(0, post_transform(op, linear(op, op.i("targets", 1)))); }

// The label of the largest score, and the scores of every class. Without intercepts, the number of scores follows from the
// features.
void linear_classifier(Op& op) {
  const size_t labels = class_count(op), coefficients = op.floats("coefficients").size();
  size_t rows = op.floats("intercepts").size();
  if (rows == 0 && op.rank(0) > 0) {
    const auto features = op.dims().constant_value(op.sizes(0).back());
    rows = features.value_or(0) > 0 ? coefficients / static_cast<size_t>(*features) : labels;
  }
  if (labels < 2 || (rows != labels && !(labels == 2 && rows == 1)))
    return (void)op.fail(Code::BadAttribute, "labels, coefficients and intercepts do not fit each other");
  ValueId scores = linear(op, static_cast<int64_t>(rows));
  if (rows == 1) scores = op.b.concat(std::array{op.b.unary(OpKind::Neg, scores), scores}, 1);
  op.set(0, class_labels(op, first_largest(op, scores)));
  op.set(1, post_transform(op, scores));
}

void imputer(Op& op) {
  const DType t = op.dtype(0);
  const bool floats = is_float(t);
  ValueId missing, fill;
  if (floats) {
    const double replaced = op.f("replaced_value_float", 0);
    missing = std::isnan(replaced) ? op.b.unary(OpKind::IsNan, op.in(0))
                                   : op.b.create(OpKind::Eq, {op.in(0), op.b.scalar(t, replaced)});
    fill = real_vector(op, t, op.floats("imputed_value_floats"));
  } else {
    missing = op.b.create(OpKind::Eq, {op.in(0), op.b.scalar(t, static_cast<double>(op.i("replaced_value_int64", 0)))});
    fill = op.b.cast(op.b.ints(op.ints("imputed_value_int64s")), t);
  }
  op.set(0, op.b.create(OpKind::Where, {missing, fill, op.in(0)}));
}

// Concatenates features. An input whose width differs from its declared one is cut or zero-padded.
void feature_vectorizer(Op& op) {
  const std::vector<int64_t> widths = op.ints("inputdimensions");
  if (!widths.empty() && (widths.size() != op.inputs() || std::ranges::min(widths) < 0))
    return (void)op.fail(Code::BadAttribute, "inputdimensions needs a number of features for each input");
  std::vector<ValueId> parts;
  for (size_t i = 0; i < op.inputs(); ++i) {
    if (!op.has(i) || op.rank(i) < 1) return (void)op.fail(Code::BadShape, "input " + std::to_string(i) + " needs an axis");
    const auto& d = op.sizes(i);  // [features] or [rows, ...]
    const Dim own = op.dims().product({d.begin() + (d.size() > 1), d.end()});
    ValueId v = op.b.reshape(op.b.cast(op.in(i), DType::F32), {d.size() > 1 ? d[0] : Dim(1), own});
    if (const Dim width = widths.empty() ? own : Dim(widths[i]); own != width) {
      const Dim missing = op.dims().max(op.dims().sub(width, own), Dim(0));
      v = op.b.create(OpKind::Pad, {v}, PadAttrs{{Dim(0), Dim(0)}, {Dim(0), missing}, PadMode::Constant});
      v = op.b.narrow(v, 1, Dim(0), width);
    }
    parts.push_back(v);
  }
  op.set(0, op.b.concat(parts, 1));
}

}  // namespace rlxc::onnx_import
