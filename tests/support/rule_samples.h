// Samples of every kind that derivatives pass, in f64 and of awkward shapes: what the tests of transforms try.
#pragma once
#include <cmath>

#include "support/eval.h"
#include "support/random.h"
#include "transform/rules.h"

namespace rlxc::test {

struct Sample {
  OpKind op;
  Attrs attrs;
  std::vector<HostValue> in;
  size_t result = 0;
};

// Two modules may be built of one sample: transforms change theirs.
struct SampleGraph {
  Module m;
  Diagnostics d;
  std::vector<ValueId> operands, results;
  std::vector<HostValue> in;  // of the operands that are there
  Builder b{m.main(), &d};
  explicit SampleGraph(const Sample& s) {
    for (const HostValue& v : s.in) {
      const bool there = v.kind == TypeKind::Tensor;
      operands.push_back(there ? b.input("x" + std::to_string(operands.size()), eval::type_of(v)) : ValueId());
      if (there) in.push_back(v);
    }
    const NodeId n = b.create_node(s.op, operands, s.attrs);
    REQUIRE_MESSAGE(n.valid(), d.text());
    for (size_t r = 0; r < m.main().result_count(n); ++r) results.push_back(m.main().result(n, r));
  }
  void set_outputs() {
    for (size_t r = 0; r < results.size(); ++r) m.main().add_output(results[r], m.symbol("y" + std::to_string(r)));
  }
};

inline HostValue reals(std::vector<int64_t> dims, uint64_t seed, double low = -0.9, double high = 0.9) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  Random random(seed);
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(random.uniform(low, high));
  return tensor_of(DType::F64, std::move(dims), v);
}
inline HostValue bools(std::vector<int64_t> dims, const std::vector<double>& v) {
  return tensor_of(DType::Bool, std::move(dims), v);
}

inline std::vector<Sample> samples() {
  const HostValue m = reals({2, 3, 4}, 1), row = reals({4}, 2), positive = reals({2, 3, 4}, 3, 0.3, 2),
                  image = reals({2, 4, 5, 6}, 4);
  const HostValue some = i64({2, 2}, {2, 0, 1, -1});
  ConvAttrs conv{{2, 1}, {1, 0}, {0, 1}, {1, 2}, {0, 0}, 2};
  const ConvAttrs skips{{2, 3}, {0, 0}, {0, 0}, {1, 1}, {0, 0}, 1}, covers{{2, 3}, {1, 2}, {2, 1}, {1, 1}, {0, 0}, 1},
      crops{{1, 1}, {2, 0}, {0, 3}, {1, 1}, {0, 0}, 1};
  PoolAttrs pool;
  pool.kernel = {2, 3}, pool.strides = {2, 1}, pool.pads_begin = {1, 0}, pool.pads_end = {0, 1}, pool.dilations = {1, 1};
  auto mean = pool, whole = pool, total = pool;
  mean.op = whole.op = ReduceOp::Mean, whole.count_include_pad = true, total.op = ReduceOp::Sum;
  ResizeAttrs twice;
  twice.sizes = {Dim(2), Dim(5)}, twice.scales = {1, 1.25};
  auto overhang = pool, power = pool, ceil_sum = pool;
  overhang.ceil_mode = power.ceil_mode = ceil_sum.ceil_mode = true, overhang.op = ReduceOp::Mean, power.op = ReduceOp::L2,
  power.p = 3;
  ceil_sum.op = ReduceOp::Sum, ceil_sum.strides = {3, 2};
  const PadAttrs pads{{Dim(0), Dim(1), Dim(2)}, {Dim(1), Dim(0), Dim(1)}, PadMode::Constant};
  auto reflect = pads, edge = pads, wrap = pads;
  reflect.mode = PadMode::Reflect, edge.mode = PadMode::Edge, wrap.mode = PadMode::Wrap;
  std::vector<Sample> all{
      {OpKind::Add, NoAttrs{}, {m, row}},
      {OpKind::Sub, NoAttrs{}, {row, m}},
      {OpKind::Mul, NoAttrs{}, {m, reals({3, 1}, 5)}},
      {OpKind::MulNoNan, NoAttrs{}, {m, reals({3, 1}, 5)}},
      {OpKind::Div, NoAttrs{}, {reals({3, 1}, 5), positive}},
      {OpKind::Max, NoAttrs{}, {m, row}},
      {OpKind::Min, NoAttrs{}, {m, row}},
      {OpKind::Pow, NoAttrs{}, {positive, row}},
      {OpKind::Mod, NoAttrs{}, {m, reals({4}, 6, -0.5, -0.3)}},
      {OpKind::Fmod, NoAttrs{}, {m, reals({4}, 6, -0.5, -0.3)}},
      {OpKind::Atan2, NoAttrs{}, {m, row}},
      {OpKind::PRelu, NoAttrs{}, {m, row}},
      {OpKind::Fma, NoAttrs{}, {m, row, reals({3, 1}, 5)}},
      {OpKind::Where, NoAttrs{}, {bools({3, 1}, {1, 0, 1}), m, row}},
      {OpKind::Cast, CastAttrs{DType::F64, true}, {m}},
      {OpKind::Reshape, DimsAttrs{{Dim(4), Dim(6)}, false}, {m}},
      {OpKind::ReshapeTo, ReshapeToAttrs{}, {m, i64({2}, {6, 4})}},
      {OpKind::Transpose, PermAttrs{{2, 0, 1}}, {m}},
      {OpKind::Expand, DimsAttrs{{Dim(2), Dim(3), Dim(4)}, false}, {reals({3, 1}, 5)}},
      {OpKind::Narrow, NarrowAttrs{2, Dim(1), Dim(2)}, {m}},
      {OpKind::Slice, SliceAttrs{2, Dim(3), Dim(2), -2}, {m}},
      {OpKind::Concat, AxisAttrs{1}, {m, reals({2, 2, 4}, 7), m}},
      {OpKind::Gather, AxisAttrs{1}, {m, some}},
      {OpKind::GatherElements, AxisAttrs{1}, {reals({2, 3}, 8), i64({2, 2}, {2, 2, 1, -3})}},
      {OpKind::GatherNd, BatchDimsAttrs{0}, {m, i64({2, 2}, {1, 2, 0, -1})}},
      {OpKind::ScatterElements,
       ScatterAttrs{1, Reduction::None},
       {reals({2, 3}, 8), i64({2, 2}, {2, 0, 1, 0}), reals({2, 2}, 9)}},
      {OpKind::ScatterElements, ScatterAttrs{1, Reduction::Add}, {reals({2, 3}, 8), i64({2, 2}, {2, 2, 1, 0}), reals({2, 2}, 9)}},
      {OpKind::ScatterNd, ScatterAttrs{0, Reduction::None}, {reals({3, 2}, 8), i64({2, 1}, {2, 0}), reals({2, 2}, 9)}},
      {OpKind::ScatterNd, ScatterAttrs{0, Reduction::Add}, {reals({3, 2}, 8), i64({2, 1}, {2, 2}), reals({2, 2}, 9)}},
      {OpKind::Pad, pads, {m, reals({}, 10)}},
      {OpKind::Pad, reflect, {m}},
      {OpKind::Pad, edge, {m}},
      {OpKind::Pad, wrap, {m}},
      {OpKind::Reverse, AxesAttrs{{0, 2}}, {m}},
      {OpKind::Trilu, TriluAttrs{false, 1}, {m}},
      {OpKind::Tile, DimsAttrs{{Dim(2), Dim(1), Dim(3)}, false}, {m}},
      {OpKind::Resize, twice, {reals({2, 4}, 11)}},
      {OpKind::TopK, TopKAttrs{Dim(2), 1, true, true}, {m}},
      {OpKind::Cumsum, CumAttrs{1, true, false}, {m}},
      {OpKind::Softmax, AxisAttrs{1}, {m}},
      {OpKind::LogSoftmax, AxisAttrs{2}, {m}},
      {OpKind::LayerNorm, NormAttrs{1, 1e-3}, {m, reals({3, 4}, 12), reals({3, 4}, 13)}},
      {OpKind::RmsNorm, NormAttrs{2, 1e-3}, {m, row, reals({4}, 13)}},
      {OpKind::GroupNorm, GroupNormAttrs{2, 1e-3}, {image, row, reals({4}, 13)}},
      {OpKind::BatchNormInference, NormAttrs{1, 1e-3}, {image, row, reals({4}, 13), reals({4}, 14), reals({4}, 15, 0.5, 2)}},
      {OpKind::MatMul, MatMulAttrs{true, false}, {reals({2, 3, 4}, 1), reals({3, 5}, 16)}},
      {OpKind::MatMul, MatMulAttrs{false, true}, {reals({4, 3}, 1), reals({2, 5, 3}, 16)}},
      {OpKind::MatMul, MatMulAttrs{true, true}, {reals({3, 4}, 1), reals({5, 3}, 16)}},
      {OpKind::DotGeneral, DotGeneralAttrs{{1}, {0}, {0, 3}, {2, 1}}, {reals({2, 3, 4, 5}, 17), reals({3, 5, 2, 6}, 18)}},
      {OpKind::Conv, conv, {image, reals({6, 2, 3, 2}, 19), reals({6}, 20)}},
      {OpKind::Conv, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {0, 0}, 1}, {image, reals({3, 4, 1, 1}, 19)}},
      {OpKind::Conv, ConvAttrs{{2, 1}, {1, 0}, {0, 2}, {1, 2}, {0, 0}, 4}, {image, reals({4, 1, 3, 2}, 19), reals({4}, 20)}},
      {OpKind::Conv, skips, {image, reals({3, 4, 1, 1}, 19)}},
      {OpKind::Conv, covers, {image, reals({3, 4, 3, 4}, 19)}},
      {OpKind::Conv, crops, {image, reals({3, 4, 2, 2}, 19)}},
      {OpKind::ConvTranspose, conv, {reals({2, 6, 3, 2}, 21), reals({6, 2, 3, 2}, 19), reals({4}, 20)}},
      {OpKind::Pool, pool, {image}},
      {OpKind::Pool, mean, {image}},
      {OpKind::Pool, whole, {image}},
      {OpKind::Pool, total, {image}},
      {OpKind::Pool, overhang, {image}},
      {OpKind::Pool, power, {image}},
      {OpKind::Pool, ceil_sum, {image}},
      {OpKind::MaxPoolIndices, pool, {image}},
      {OpKind::GroupedMatMul, MatMulAttrs{false, false}, {reals({5, 3}, 25), reals({2, 3, 4}, 26), i64({5}, {1, 0, 0, 1, 1})}},
      {OpKind::GroupedMatMul, MatMulAttrs{false, true}, {reals({5, 3}, 25), reals({2, 4, 3}, 26), i64({5}, {1, 0, 0, 1, 1})}},
      {OpKind::ScatterElements,
       ScatterAttrs{1, Reduction::Mul},
       {reals({2, 3}, 8), i64({2, 3}, {2, 2, 1, 0, 1, 1}), reals({2, 3}, 9)}},
      {OpKind::ScatterElements,
       ScatterAttrs{1, Reduction::Max},
       {reals({2, 3}, 8), i64({2, 3}, {2, 2, 1, 0, 1, 1}), reals({2, 3}, 9)}},
      {OpKind::ScatterNd, ScatterAttrs{0, Reduction::Min}, {reals({3, 2}, 8), i64({3, 1}, {2, 0, 2}), reals({3, 2}, 9)}},
      {OpKind::OneHot, OneHotAttrs{1, Dim(4)}, {i64({2, 3}, {0, 1, -1, 7, 2, 0}), reals({2}, 27)}},
      {OpKind::Range, DimsAttrs{{Dim(5)}, false}, {reals({}, 28), reals({}, 29)}},
      {OpKind::Unique, UniqueAttrs{0, true, true}, {reals({2, 3}, 30)}},
      {OpKind::Unique, UniqueAttrs{1, false, true}, {reals({2, 3}, 30)}},
      {OpKind::Det, NoAttrs{}, {reals({2, 3, 3}, 31)}},
      {OpKind::Det, NoAttrs{}, {reals({1, 1}, 31)}},
      {OpKind::Fft, FftAttrs{1, false, false, FftNorm::None, Dim(0)}, {reals({2, 5, 2}, 32)}},
      {OpKind::Fft, FftAttrs{1, false, true, FftNorm::Unitary, Dim(0)}, {reals({2, 5, 1}, 32)}},
      {OpKind::Fft, FftAttrs{0, true, false, FftNorm::InverseN, Dim(7)}, {reals({5, 2, 2}, 32)}},
      {OpKind::Fft, FftAttrs{0, false, true, FftNorm::None, Dim(4)}, {reals({6, 3, 1}, 32)}},
      {OpKind::Fft, FftAttrs{1, true, true, FftNorm::InverseN, Dim(6)}, {reals({2, 4, 2}, 33)}},
      {OpKind::Fft, FftAttrs{1, true, true, FftNorm::None, Dim(7)}, {reals({2, 4, 2}, 33)}},
      {OpKind::Rope, RopeAttrs{6, 4, RopeStyle::GptJ, AttentionLayout::Packed}, {reals({1, 3, 6}, 22)}},
  };
  // Tables of a rotation carry no gradient: they are constants of the sample's types.
  all.back().in.push_back(f32({3, 2}, {1, 0.5, 0.2, 0.9, 0.4, 0.3}));
  all.back().in.push_back(f32({3, 2}, {0.1, 0.7, 0.5, 0.2, 0.8, 0.6}));
  for (size_t i = 0; i < enum_names(ReduceOp{}).size(); ++i)
    for (bool keep : {false, true})
      all.push_back({OpKind::Reduce, ReduceAttrs{static_cast<ReduceOp>(i), {0, 2}, keep}, {positive}});
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (!transform::has_slope(op) || op == OpKind::Round) continue;
    Attrs attrs = default_attrs(op);
    if (auto* a = std::get_if<AlphaBetaAttrs>(&attrs)) *a = {0.7, 0.2};
    if (auto* c = std::get_if<ClampAttrs>(&attrs)) *c = {-0.5, 0.4};
    const bool above = op == OpKind::Log || op == OpKind::Sqrt || op == OpKind::Rsqrt || op == OpKind::Recip;
    all.push_back({op, attrs, {op == OpKind::Acosh ? reals({8}, 23, 1.2, 3) : above ? reals({8}, 23, 0.3, 2) : reals({8}, 23)}});
    if (op == OpKind::HardSwish || op == OpKind::HardSigmoid) all.push_back({op, attrs, {reals({8}, 24, -6, 6)}});
  }
  return all;
}

// Kinds, attributes and operands that have no rule of their own: they are written with simpler operations.
inline std::vector<Sample> composite_samples() {
  const HostValue m = reals({2, 3, 4}, 1), image = reals({2, 4, 5, 6}, 4), steps = reals({2, 5, 3}, 34);
  ResizeAttrs linear, cubic;
  linear.sizes = cubic.sizes = {Dim(3), Dim(7)}, linear.mode = ResizeMode::Linear, cubic.mode = ResizeMode::Cubic;
  cubic.coord = CoordMode::AlignCorners;
  ConvAttrs conv{{2, 1}, {1, 0}, {0, 1}, {1, 2}, {0, 0}, 2};
  const Epilogue gelu{true, OpKind::Gelu, 0, 0}, leaky{true, OpKind::LeakyRelu, 0.2, 0};
  RnnAttrs lstm, gru, rnn;
  lstm.hidden = gru.hidden = rnn.hidden = 2;
  lstm.clip = 0.4, lstm.direction = RnnDirection::Bidirectional;
  auto coupled = lstm;
  coupled.clip = 0, coupled.direction = RnnDirection::Forward, coupled.input_forget = true;
  gru.linear_before_reset = true, gru.activations = {"HardSigmoid", "Softsign"};
  gru.activation_alpha = {0.2}, gru.activation_beta = {0.5};
  rnn.direction = RnnDirection::Reverse, rnn.activations = {"Sigmoid"};
  AttentionAttrs attention;
  attention.num_heads = 4, attention.num_kv_heads = 2, attention.mask = MaskKind::Causal, attention.softcap = 0.7;
  FusionAttrs region;
  constexpr uint16_t kStep = RegionStep::kStep, kNone = RegionStep::kNone;
  region.steps = {{OpKind::Mul, DType::F64, {0, 1, kNone}}, {OpKind::Tanh, DType::F64, {kStep, kNone, kNone}}};
  ConcatRegionAttrs joined;
  joined.steps = region.steps;
  joined.axis = 1, joined.parts = {1, 0};
  FusionAttrs reduced;
  reduced.steps = region.steps;
  reduced.steps.push_back({OpKind::Reduce, DType::F64, {kStep | 1, kNone, kNone}, ReduceAttrs{ReduceOp::Sum, {2}, true}});
  FusionAttrs normed;
  normed.steps = region.steps;
  normed.steps.push_back({OpKind::LayerNorm, DType::F64, {kStep | 1, kNone, kNone}, NormAttrs{2, 1e-3}});
  const HostValue row = reals({4}, 2);
  return {
      {OpKind::StopGradient, NoAttrs{}, {m}},
      {OpKind::Cumprod, CumAttrs{1, false, false}, {m}},
      {OpKind::Cumprod, CumAttrs{2, true, true}, {m}},
      {OpKind::Lrn, LrnAttrs{3, 0.3, 0.75, 1.2}, {image}},
      {OpKind::Resize, linear, {reals({2, 4}, 11)}},
      {OpKind::Resize, cubic, {reals({2, 4}, 11)}},
      {OpKind::SelectiveScan,
       NoAttrs{},
       {steps, reals({2, 5, 3}, 35), reals({3, 2}, 36), reals({2, 5, 2}, 37), reals({2, 5, 2}, 38)}},
      {OpKind::Attention, attention, {reals({2, 4, 3, 2}, 1), reals({2, 2, 5, 2}, 2), reals({2, 2, 5, 3}, 3)}},
      {OpKind::Lstm,
       lstm,
       {reals({3, 2, 3}, 40), reals({2, 8, 3}, 41), reals({2, 8, 2}, 42), reals({2, 16}, 43), absent(), reals({2, 2, 2}, 44),
        reals({2, 2, 2}, 45), reals({2, 6}, 46)}},
      {OpKind::Lstm,
       coupled,
       {reals({3, 2, 3}, 40), reals({1, 8, 3}, 41), reals({1, 8, 2}, 42), absent(), tensor_of(DType::I32, {2}, {1.0, 3.0})}},
      {OpKind::Gru, gru, {reals({3, 2, 3}, 40), reals({1, 6, 3}, 47), reals({1, 6, 2}, 48), reals({1, 12}, 49)}},
      {OpKind::Rnn, rnn, {reals({3, 2, 3}, 40), reals({1, 2, 3}, 50), reals({1, 2, 2}, 51)}},
      {OpKind::FusedMatMulBiasAct,
       FusedMatMulAttrs{false, true, gelu},
       {m, reals({5, 4}, 52), reals({5}, 53), reals({2, 3, 5}, 54)}},
      {OpKind::FusedConvBiasAct, FusedConvAttrs{conv, leaky}, {image, reals({6, 2, 3, 2}, 19), reals({6}, 20)}},
      {OpKind::FusedConvTransposeBiasAct,
       FusedConvAttrs{conv, gelu},
       {reals({2, 6, 3, 2}, 21), reals({6, 2, 3, 2}, 19), reals({4}, 20)}},
      {OpKind::FusedResidualLN, NormAttrs{2, 1e-3}, {m, reals({2, 3, 4}, 55), row, reals({4}, 56), reals({4}, 57)}},
      {OpKind::FusedResidualRmsNorm, NormAttrs{2, 1e-3}, {m, reals({2, 3, 4}, 55), absent(), reals({4}, 56)}},
      {OpKind::FusedMatMulSwiGLU, GatedMatMulAttrs{false, true, {}}, {m, reals({4, 6}, 58), reals({6}, 59)}},
      {OpKind::FusedSwiGLU, SwiGLUAttrs{false, gelu}, {m}},
      {OpKind::ElementwiseRegion, region, {m, row}},
      {OpKind::ConcatRegion, joined, {m, row}},
      {OpKind::ReduceRegion, reduced, {m, row}},
      {OpKind::NormRegion, normed, {m, row}},
      {OpKind::Rope,
       RopeAttrs{6, 4, RopeStyle::NeoX, AttentionLayout::Packed},
       {reals({1, 3, 6}, 22), reals({3, 2}, 60), reals({3, 2}, 61)}},
  };
}

inline std::vector<Sample> all_samples() {
  std::vector<Sample> all = samples();
  for (Sample& s : composite_samples()) all.push_back(std::move(s));
  return all;
}

}  // namespace rlxc::test
