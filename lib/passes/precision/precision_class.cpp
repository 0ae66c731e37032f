#include "passes/precision/precision_class.h"

#include <array>
#include <iterator>

namespace rlxc {
namespace {

constexpr std::string_view kNames[] = {"fixed", "contraction", "norm", "sensitive", "elementwise", "movement"};
constexpr uint32_t kAll = 0xFFFFFFFF;

std::array<PrecisionRow, kOpCount> make_table() {
  using enum OpKind;
  std::array<PrecisionRow, kOpCount> t{};
  auto set = [&](PrecisionClass c, uint32_t slots, std::initializer_list<OpKind> kinds) {
    for (OpKind k : kinds) t[static_cast<size_t>(k)] = {c, slots};
  };
  for (int k = 0; k < kOpCount; ++k)
    if (has_trait(static_cast<OpKind>(k), kElementwise)) t[static_cast<size_t>(k)] = {PrecisionClass::Elementwise, kAll};
  set(PrecisionClass::Contraction, 0b11, {MatMul, DotGeneral});
  set(PrecisionClass::Contraction, 0b111, {Conv, ConvTranspose, Attention, FusedMatMulSwiGLU});
  set(PrecisionClass::Contraction, 0b1111, {FusedMatMulBiasAct, FusedConvBiasAct, FusedConvTransposeBiasAct});
  set(PrecisionClass::Contraction, 0b11, {GroupedMatMul});
  set(PrecisionClass::Contraction, 0b110001, {DequantMatMul});
  set(PrecisionClass::Norm, 0b1, {Softmax, LogSoftmax, LayerNorm, RmsNorm, GroupNorm, BatchNormInference, Lrn});
  set(PrecisionClass::Norm, 0b11, {FusedResidualLN, FusedResidualRmsNorm});
  set(PrecisionClass::Sensitive, 0b1,
      {Exp, Expm1, Log, Log1p, Recip, Rsqrt, Sqrt, Tan, Sinh, Cosh, Asin, Acos, Atanh, Sin, Cos, Reduce, Cumsum});
  set(PrecisionClass::Sensitive, 0b11, {Pow, Div, Mod, Fmod, Atan2});
  set(PrecisionClass::Movement, 0b1,
      {Reshape, Transpose, Narrow, Slice, Expand, Gather, GatherElements, GatherNd, Reverse, Tile, Trilu, Resize, Pool,
       MaxPoolIndices, TopK, ArgReduce});
  set(PrecisionClass::Movement, 0b1001, {Rope});
  set(PrecisionClass::Movement, 0b11, {Pad});
  set(PrecisionClass::Movement, 0b101, {ScatterElements, ScatterNd});
  set(PrecisionClass::Movement, 0b10, {OneHot});
  set(PrecisionClass::Movement, kAll, {Concat});
  set(PrecisionClass::Elementwise, 0b110, {Where});
  set(PrecisionClass::Elementwise, 0b1, {FusedSwiGLU});
  set(PrecisionClass::Fixed, 0, {Cast, ElementwiseRegion, NormRegion, ReduceRegion, IsNan, IsInf});
  return t;
}

}  // namespace

PrecisionRow precision_row(OpKind op) {
  static const auto table = make_table();
  return table[static_cast<size_t>(op)];
}

std::string_view name(PrecisionClass c) { return kNames[static_cast<size_t>(c)]; }

std::optional<PrecisionClass> precision_class_from_name(std::string_view s) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == s) return static_cast<PrecisionClass>(i);
  return std::nullopt;
}

}  // namespace rlxc
