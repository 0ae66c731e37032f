#include "op_matrix/samples.h"
#include "ops/elementwise.h"

namespace rlxc::matrix {
namespace {

using Shape = std::vector<int64_t>;

std::string text(const Shape& s) {
  std::string out;
  for (int64_t d : s) out += (out.empty() ? "" : "x") + std::to_string(d);
  return out.empty() ? "scalar" : out;
}

}  // namespace

ValueId Operands::in(std::vector<int64_t> dims, DType t, double low, double high) {
  size_t n = 1;
  for (int64_t d : dims) n *= static_cast<size_t>(d);
  std::vector<double> values(n);
  for (double& v : values)
    v = is_float(t) ? random_.uniform(low, high)
                    : std::floor(random_.uniform(t == DType::Bool ? 0 : low, t == DType::Bool ? 2 : high + 1));
  contents.push_back(eval::tensor_of(t, dims, values));
  return b.input(prefix_ + std::to_string(contents.size()), eval::type_of(contents.back()));
}

std::vector<Sample> elementwise_samples() {
  std::vector<Sample> all;
  const std::vector<Shape> shapes = {{}, {1}, {7}, {3, 5, 7}, {0, 4}, {2, 1031}};
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{}, {}},         {{1}, {5}},  {{3, 1, 5}, {4, 1}},   {{2, 3, 4, 5}, {3, 1, 5}},
      {{0, 3}, {1, 3}}, {{257}, {}}, {{2, 1031}, {2, 1031}}};
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    int arity = 0;
    ops::visit(op, [&](auto meaning) { arity = decltype(meaning)::arity; });
    Attrs attrs = default_attrs(op);
    if (auto* ab = std::get_if<AlphaBetaAttrs>(&attrs)) {
      ab->alpha = 0.3;
      ab->beta = 0.4;
    }
    if (auto* clamp = std::get_if<ClampAttrs>(&attrs)) {
      clamp->min = -1;
      clamp->max = 1;
    }
    // The domain of the function.
    const bool positive = op == OpKind::Log || op == OpKind::Sqrt || op == OpKind::Rsqrt || op == OpKind::Log1p ||
                          op == OpKind::Pow || op == OpKind::Recip;
    const bool unit = op == OpKind::Asin || op == OpKind::Acos || op == OpKind::Atanh;
    const bool divides = op == OpKind::Div || op == OpKind::Mod || op == OpKind::Fmod,
               shifts = op == OpKind::Shl || op == OpKind::Shr;
    const auto domain = [=](Operands& o) {
      if (positive) o.range(0.5, 3);
      else if (unit) o.range(-0.9, 0.9);
      else if (op == OpKind::Acosh) o.range(1.1, 4);
    };
    if (arity == 1) {
      for (const Shape& s : shapes)
        all.push_back({op, text(s), 1, [=](Operands& o) {
                         domain(o);
                         return o.op(op, {o.in(s)}, attrs);
                       }});
      all.push_back({op, "transposed 5x33", 1, [=](Operands& o) {
                       domain(o);
                       return o.op(op, {o.turned(5, 33)}, attrs);
                     }});
    }
    if (arity == 2)
      for (const auto& [a, b] : pairs)
        all.push_back({op, text(a) + " and " + text(b), 1, [=, a = a, b = b](Operands& o) {
                         domain(o);
                         const ValueId x = shifts ? o.in(a, o.dtype, 0, 9) : o.in(a);
                         const ValueId y = shifts ? o.in(b, o.dtype, 0, 5) : divides ? o.in(b, o.dtype, 1, 3) : o.in(b);
                         return o.op(op, {x, y}, attrs);
                       }});
    if (arity == 3)
      all.push_back({op, "3x7", 1, [=](Operands& o) { return o.op(op, {o.in({3, 7}), o.in({3, 7}), o.in({3, 7})}, attrs); }});
  }
  for (const auto& [a, b] : pairs)
    all.push_back({OpKind::Where, text(a) + " and " + text(b), 1, [a = a, b = b](Operands& o) {
                     return o.op(OpKind::Where, {o.in(a, DType::Bool, 0, 1), o.in(b), o.in(a)});
                   }});
  // The codes of a sum, and the sum.
  for (const auto& [a, b] : pairs)
    all.push_back(
        {OpKind::ElementwiseRegion, "codes beside floats, " + text(a) + " and " + text(b), 1, [a = a, b = b](Operands& o) {
           if (o.dtype != DType::F32) return ValueId();
           constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;
           const std::vector<RegionStep> steps{{OpKind::Add, DType::F32, {0, 1, kNone}},
                                               {OpKind::Div, DType::F32, {kStep, 2, kNone}},
                                               {OpKind::Round, DType::F32, {kStep | 1, kNone, kNone}},
                                               {OpKind::Clamp, DType::F32, {kStep | 2, kNone, kNone}, ClampAttrs{0, 255}},
                                               {OpKind::Cast, DType::U8, {kStep | 3, kNone, kNone}}};
           return o.op(OpKind::ElementwiseRegion, {o.in(a), o.in(b), o.in({}, DType::F32, 0.01, 0.02)}, FusionAttrs{steps, {0}});
         }});
  // Codes and negated values, side by side.
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{5, 24}, {5, 24}}, {{5, 24}, {5, 7}}, {{2, 3, 8}, {2, 3, 8}}})
    all.push_back({OpKind::ConcatRegion, text(a) + " beside " + text(b), 1, [a = a, b = b](Operands& o) {
                     if (o.dtype != DType::F32) return ValueId();
                     constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;
                     ConcatRegionAttrs at;
                     at.steps = {{OpKind::Div, DType::F32, {0, 2, kNone}},
                                 {OpKind::Round, DType::F32, {kStep, kNone, kNone}},
                                 {OpKind::Neg, DType::F32, {1, kNone, kNone}}};
                     at.axis = static_cast<int64_t>(a.size()) - 1;
                     at.parts = {1, 2};
                     return o.op(OpKind::ConcatRegion, {o.in(a), o.in(b), o.in({}, DType::F32, 0.01, 0.02)}, at);
                   }});
  for (DType to :
       {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::U8, DType::I16, DType::I32, DType::I64, DType::Bool})
    for (const Shape& s : {Shape{37}, Shape{0}})
      all.push_back({OpKind::Cast, "to " + std::string(name(to)) + " " + text(s), 1, [=](Operands& o) {
                       return o.dtype == to ? ValueId() : o.op(OpKind::Cast, {o.in(s, o.dtype, 0, 9)}, CastAttrs{to});
                     }});
  for (const Shape& s : {Shape{}, Shape{5, 7, 3}, Shape{130, 70}})
    all.push_back({OpKind::DynamicQuantize, text(s), 1, [=](Operands& o) {
                     return is_float(o.dtype) && o.dtype != DType::F64 ? o.op(OpKind::DynamicQuantize, {o.in(s)}) : ValueId();
                   }});
  for (DType to : {DType::I8, DType::U8})
    for (int64_t axis : {-1, 0, 1}) {
      const Shape scale = axis < 0 ? Shape{} : Shape{axis == 0 ? 5 : 7};
      const std::string what = std::string(name(to)) + (axis < 0 ? " per tensor" : " axis " + std::to_string(axis));
      const auto operands = [=](Operands& o, ValueId x, DType scale_type) {
        return std::vector<ValueId>{x, o.in(scale, scale_type, 0.02, 0.05), o.in(scale, to, 0, 5)};
      };
      all.push_back({OpKind::Quantize, what, 1, [=](Operands& o) {
                       return o.op(OpKind::Quantize, operands(o, o.in({5, 7, 3}), is_float(o.dtype) ? o.dtype : DType::F32),
                                   QuantAttrs{std::max<int64_t>(axis, 0), 0, to, true});
                     }});
      all.push_back({OpKind::Dequantize, what, 1, [=](Operands& o) {
                       if (!is_float(o.dtype)) return ValueId();
                       return o.op(OpKind::Dequantize, operands(o, o.in({5, 7, 3}, to, 0, 100), o.dtype),
                                   QuantAttrs{std::max<int64_t>(axis, 0), 0, o.dtype, true});
                     }});
    }
  return all;
}

}  // namespace rlxc::matrix
