// Samples of the kinds in rule_samples.h with other attributes: axes, directions, groups, strides, pads, modes, reductions,
// broadcasts of each operand, negative and repeated indices, axes of size 1 and 0.
#pragma once
#include "support/rule_samples.h"

namespace rlxc::test {

inline void add_elementwise_variants(std::vector<Sample>& all) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> shapes{
      {{4}, {2, 3, 4}}, {{2, 3, 4}, {3, 1}}, {{}, {2, 3}}, {{2, 3}, {}}, {{2, 1, 4}, {3, 1}}, {{0, 3}, {1, 3}}, {{1, 1}, {2, 3}}};
  constexpr OpKind kBinary[] = {OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::MulNoNan, OpKind::Div,   OpKind::Max,
                                OpKind::Min, OpKind::Pow, OpKind::Mod, OpKind::Fmod,     OpKind::Atan2, OpKind::PRelu};
  for (const auto& [a, b] : shapes) {
    for (OpKind op : kBinary) {
      all.push_back({op, NoAttrs{}, {reals(a, 101, 0.3, 2), reals(b, 102, 0.35, 1.6)}});
      if (op != OpKind::Pow) all.push_back({op, NoAttrs{}, {reals(a, 103, -2, -0.3), reals(b, 104, 0.35, 1.6)}});
      if (op == OpKind::Div || op == OpKind::Mod || op == OpKind::Fmod || op == OpKind::Atan2)
        all.push_back({op, NoAttrs{}, {reals(a, 105, 0.3, 2), reals(b, 106, -1.6, -0.35)}});
    }
    all.push_back({OpKind::Where, NoAttrs{}, {bools({2, 1, 1}, {1, 0}), reals(a, 107), reals(b, 108)}});
    all.push_back({OpKind::Fma, NoAttrs{}, {reals(a, 109), reals({1}, 110), reals(b, 111)}});
    all.push_back({OpKind::Fma, NoAttrs{}, {reals({1}, 112), reals(b, 113), reals(a, 114)}});
  }
  all.push_back({OpKind::Where, NoAttrs{}, {bools({2, 3, 4}, std::vector<double>(24, 1)), reals({}, 115), reals({4}, 116)}});
  const double most = std::numeric_limits<double>::infinity();
  for (const ClampAttrs& c : {ClampAttrs{-most, 0.2}, ClampAttrs{-0.2, most}, ClampAttrs{}, ClampAttrs{0.5, -0.5}})
    all.push_back({OpKind::Clamp, c, {reals({2, 5}, 117)}});
  for (OpKind op : {OpKind::LeakyRelu, OpKind::Elu, OpKind::Celu, OpKind::Selu, OpKind::HardSigmoid, OpKind::Shrink})
    for (const AlphaBetaAttrs& a : {AlphaBetaAttrs{1.5, 0.8}, AlphaBetaAttrs{0.01, 0}})
      if (std::holds_alternative<AlphaBetaAttrs>(default_attrs(op))) all.push_back({op, a, {reals({9}, 118, -3, 3)}});
}

inline void add_reduction_variants(std::vector<Sample>& all) {
  const HostValue positive = reals({2, 3, 4}, 121, 0.3, 2), mixed = reals({2, 3, 4}, 122), flat = reals({2, 1, 4}, 123, 0.3, 2);
  const HostValue zeros = tensor_of(DType::F64, {2, 3}, {0.0, 2.0, 3.0, 0.0, 0.0, 5.0}), empty = reals({2, 0, 3}, 124);
  for (size_t i = 0; i < enum_names(ReduceOp{}).size(); ++i) {
    const auto op = static_cast<ReduceOp>(i);
    const auto add = [&](const HostValue& x, std::vector<int64_t> axes, bool keep) {
      all.push_back({OpKind::Reduce, ReduceAttrs{op, std::move(axes), keep}, {x}});
    };
    const HostValue& x = op == ReduceOp::LogSum ? positive : mixed;
    for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {1, 2}, {0, 1, 2}, {}})
      add(x, axes, axes.size() == 1);
    for (bool keep : {false, true}) add(flat, {1}, keep);
    const bool has_identity = op == ReduceOp::Sum || op == ReduceOp::Prod || op == ReduceOp::L1 || op == ReduceOp::SumSquare;
    add(empty, {2}, false);
    if (has_identity) add(empty, {1}, true), add(empty, {0, 1}, false);
  }
  for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{0}, {1}, {0, 1}})
    all.push_back({OpKind::Reduce, ReduceAttrs{ReduceOp::Prod, axes, false}, {zeros}});
  for (int64_t axis : {0, 1, 2})
    for (bool exclusive : {false, true})
      for (bool reverse : {false, true})
        for (OpKind op : {OpKind::Cumsum, OpKind::Cumprod}) {
          all.push_back({op, CumAttrs{axis, exclusive, reverse}, {mixed}});
          if (axis == 1) all.push_back({op, CumAttrs{axis, exclusive, reverse}, {flat}});
          if (axis == 1) all.push_back({op, CumAttrs{axis, exclusive, reverse}, {zeros}});
          if (axis == 1) all.push_back({op, CumAttrs{axis, exclusive, reverse}, {empty}});
        }
  for (const TopKAttrs& t : {TopKAttrs{Dim(1), 0, false, true}, TopKAttrs{Dim(4), 2, true, false},
                             TopKAttrs{Dim(3), 1, false, false}, TopKAttrs{Dim(0), 1, true, true}})
    all.push_back({OpKind::TopK, t, {mixed}});
  for (OpKind op : {OpKind::Softmax, OpKind::LogSoftmax})
    for (int64_t axis : {0, 1, 2}) {
      all.push_back({op, AxisAttrs{axis}, {mixed}});
      all.push_back({op, AxisAttrs{axis}, {flat}});
      all.push_back({op, AxisAttrs{axis}, {empty}});
    }
}

inline void add_norm_variants(std::vector<Sample>& all) {
  const std::vector<int64_t> dims{2, 3, 4};
  const HostValue m = reals(dims, 131), image = reals({2, 4, 5, 2}, 132), none = absent();
  for (int64_t axis : {0, 1, 2})
    for (OpKind op : {OpKind::LayerNorm, OpKind::RmsNorm}) {
      const std::vector<int64_t> rest(dims.begin() + axis, dims.end());
      const HostValue gamma = reals(rest, 133), beta = reals(rest, 134);
      const NormAttrs a{axis, 1e-2};
      all.push_back({op, a, {m}});
      all.push_back({op, a, {m, gamma}});
      all.push_back({op, a, {m, none, beta}});
      all.push_back({op, a, {m, gamma, beta}});
      if (axis > 0)
        all.push_back(
            {op, a, {reals({2, 1, 1}, 135), reals(axis == 1 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{1}, 136)}});
    }
  for (int64_t groups : {1, 2, 4}) {
    all.push_back({OpKind::GroupNorm, GroupNormAttrs{groups, 1e-2}, {image}});
    all.push_back({OpKind::GroupNorm, GroupNormAttrs{groups, 1e-2}, {image, none, reals({4}, 137)}});
    all.push_back({OpKind::GroupNorm, GroupNormAttrs{groups, 1e-2}, {reals({3, 4, 3}, 138), reals({4}, 139)}});
  }
  for (int64_t axis : {0, 2, 3}) {
    const std::vector<int64_t> n{std::vector<int64_t>{2, 4, 5, 2}[static_cast<size_t>(axis)]};
    all.push_back({OpKind::BatchNormInference,
                   NormAttrs{axis, 1e-2},
                   {image, reals(n, 140), reals(n, 141), reals(n, 142), reals(n, 143, 0.5, 2)}});
  }
  for (int64_t size : {1, 2, 4, 9}) all.push_back({OpKind::Lrn, LrnAttrs{size, 0.5, 0.6, 0.9}, {image}});
}

inline void add_product_variants(std::vector<Sample>& all) {
  const auto add = [&](bool a, bool b, std::vector<int64_t> x, std::vector<int64_t> y) {
    all.push_back({OpKind::MatMul, MatMulAttrs{a, b}, {reals(std::move(x), 151), reals(std::move(y), 152)}});
  };
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      const auto rows = [&](std::vector<int64_t> lead, int64_t m, int64_t n, bool transposed) {
        lead.insert(lead.end(), {transposed ? n : m, transposed ? m : n});
        return lead;
      };
      add(a, b, rows({2, 1}, 3, 4, a), rows({5}, 4, 2, b));
      add(a, b, rows({}, 3, 4, a), rows({2, 2}, 4, 1, b));
      add(a, b, rows({1}, 1, 4, a), rows({3}, 4, 2, b));
      add(a, b, rows({2}, 3, 0, a), rows({}, 0, 2, b));
      add(a, b, rows({0}, 3, 2, a), rows({1}, 2, 2, b));
    }
  all.push_back({OpKind::GroupedMatMul, MatMulAttrs{}, {reals({3, 2}, 153), reals({4, 2, 3}, 154), i64({3}, {3, 0, 3})}});
  const auto dot = [&](DotGeneralAttrs d, std::vector<int64_t> x, std::vector<int64_t> y) {
    all.push_back({OpKind::DotGeneral, d, {reals(std::move(x), 155), reals(std::move(y), 156)}});
  };
  dot({{}, {}, {}, {}}, {2, 3}, {4});
  dot({{}, {}, {0, 1}, {1, 0}}, {2, 3}, {3, 2});
  dot({{}, {}, {2, 0}, {0, 2}}, {2, 3, 4}, {4, 5, 2});
  dot({{2, 0}, {0, 1}, {1}, {2}}, {2, 3, 4}, {4, 2, 3, 5});
  dot({{0, 1}, {1, 2}, {3, 2}, {0, 3}}, {2, 3, 4, 5}, {5, 2, 3, 4});
  dot({{}, {}, {1}, {1}}, {3, 1}, {2, 1});
  for (int64_t n : {2, 4}) all.push_back({OpKind::Det, NoAttrs{}, {reals({2, n, n}, 157)}});
  all.push_back({OpKind::Det, NoAttrs{}, {tensor_of(DType::F64, {3, 3}, {1.0, 2.0, 3.0, 2.0, 4.0, 6.0, 0.0, 1.0, 5.0})}});
  all.push_back({OpKind::Det, NoAttrs{}, {reals({0, 2, 2}, 158)}});
  for (int64_t length : {0, 1, 2, 5, 8})
    for (bool inverse : {false, true})
      for (bool onesided : {false, true}) {
        if (inverse && onesided && length == 0) continue;
        const bool complex = inverse || !onesided;
        all.push_back(
            {OpKind::Fft, FftAttrs{1, inverse, onesided, FftNorm::Unitary, Dim(length)}, {reals({2, 4, 1 + complex}, 159)}});
      }
}

inline void add_window_variants(std::vector<Sample>& all) {
  const auto conv = [&](const ConvAttrs& c, std::vector<int64_t> x, std::vector<int64_t> w, bool bias = false) {
    Sample s{OpKind::Conv, c, {reals(std::move(x), 161), reals(w, 162)}};
    if (bias) s.in.push_back(reals({w[0]}, 163));
    all.push_back(std::move(s));
  };
  conv({{1}, {0}, {0}, {1}, {0}, 1}, {2, 3, 6}, {4, 3, 3}, true);
  conv({{2}, {1}, {2}, {2}, {0}, 3}, {2, 3, 7}, {6, 1, 2}, true);
  conv({{3}, {2}, {0}, {1}, {0}, 1}, {1, 2, 8}, {2, 2, 2});
  conv({{1, 1, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1}, {1, 2, 3, 2, 3}, {3, 2, 2, 2, 3}, true);
  conv({{2, 1, 2}, {0, 1, 0}, {1, 0, 0}, {1, 2, 1}, {0, 0, 0}, 2}, {1, 4, 4, 3, 3}, {2, 2, 2, 2, 2});
  conv({{2, 2}, {1, 1}, {1, 1}, {2, 2}, {0, 0}, 1}, {1, 2, 6, 5}, {2, 2, 3, 2}, true);
  conv({{3, 2}, {2, 0}, {0, 1}, {2, 3}, {0, 0}, 2}, {2, 4, 7, 8}, {4, 2, 2, 2});
  conv({{1, 1}, {2, 3}, {2, 3}, {1, 1}, {0, 0}, 1}, {1, 1, 2, 2}, {1, 1, 5, 6});
  conv({{5, 4}, {0, 0}, {0, 0}, {1, 1}, {0, 0}, 4}, {1, 4, 7, 7}, {8, 1, 2, 2});
  conv({{1, 1}, {0, 0}, {0, 0}, {1, 1}, {0, 0}, 1}, {0, 2, 3, 3}, {3, 2, 2, 2}, true);
  conv({{1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1}, {2, 1, 1, 1}, {2, 1, 3, 3}, true);
  conv({{2, 2}, {0, 0}, {0, 0}, {1, 1}, {0, 0}, 2}, {1, 4, 5, 5}, {2, 2, 1, 1});
  const auto transposed = [&](const ConvAttrs& c, std::vector<int64_t> x, std::vector<int64_t> w, bool bias = false) {
    Sample s{OpKind::ConvTranspose, c, {reals(std::move(x), 164), reals(w, 165)}};
    if (bias) s.in.push_back(reals({w[1] * c.groups}, 166));
    all.push_back(std::move(s));
  };
  transposed({{1}, {0}, {0}, {1}, {0}, 1}, {2, 3, 4}, {3, 2, 3}, true);
  transposed({{2}, {1}, {0}, {1}, {1}, 1}, {1, 2, 3}, {2, 2, 3});
  transposed({{3}, {0}, {1}, {2}, {2}, 2}, {1, 4, 3}, {4, 1, 2}, true);
  transposed({{2, 2, 1}, {1, 0, 0}, {0, 1, 1}, {1, 1, 2}, {1, 0, 0}, 1}, {1, 2, 2, 3, 2}, {2, 1, 2, 2, 2}, true);
  transposed({{2, 3}, {0, 1}, {1, 1}, {1, 1}, {1, 2}, 2}, {2, 4, 3, 2}, {4, 2, 3, 3}, true);
  transposed({{2, 2}, {0, 0}, {0, 0}, {2, 1}, {0, 0}, 4}, {1, 4, 2, 3}, {4, 1, 2, 2});
  transposed({{4, 3}, {0, 0}, {0, 0}, {1, 1}, {0, 0}, 1}, {1, 2, 2, 2}, {2, 2, 2, 2});
  transposed({{1, 1}, {1, 0}, {0, 1}, {2, 2}, {0, 0}, 1}, {0, 1, 3, 3}, {1, 2, 2, 2}, true);

  for (ReduceOp op : {ReduceOp::Max, ReduceOp::Mean, ReduceOp::Sum, ReduceOp::L2})
    for (bool ceil : {false, true})
      for (bool counts : {false, true}) {
        if (counts && op != ReduceOp::Mean) continue;
        const auto pool = [&](std::vector<int64_t> kernel, std::vector<int64_t> strides, std::vector<int64_t> before,
                              std::vector<int64_t> after, std::vector<int64_t> dilations, std::vector<int64_t> x, double p = 2) {
          PoolAttrs a;
          a.op = op, a.kernel = std::move(kernel), a.strides = std::move(strides), a.pads_begin = std::move(before);
          a.pads_end = std::move(after), a.dilations = std::move(dilations), a.ceil_mode = ceil, a.count_include_pad = counts,
          a.p = p;
          all.push_back({OpKind::Pool, a, {reals(x, 167)}});
          if (op == ReduceOp::Max) all.push_back({OpKind::MaxPoolIndices, a, {reals(std::move(x), 168)}});
        };
        pool({3}, {2}, {1}, {1}, {1}, {2, 2, 6});
        pool({2}, {3}, {0}, {1}, {2}, {1, 2, 8});
        pool({2, 2}, {1, 2}, {1, 0}, {0, 1}, {2, 1}, {1, 2, 5, 4});
        pool({3, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 2}, {1, 2, 6, 6});
        pool({1, 1}, {2, 3}, {0, 0}, {0, 0}, {1, 1}, {1, 2, 4, 4});
        pool({2, 1, 2}, {1, 1, 2}, {1, 0, 1}, {0, 0, 0}, {1, 1, 1}, {1, 2, 3, 2, 3});
        pool({2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, {0, 2, 4, 4});
        if (op == ReduceOp::L2)
          pool({2, 2}, {1, 1}, {1, 0}, {0, 1}, {1, 1}, {1, 2, 3, 3}, 1), pool({3}, {2}, {1}, {1}, {1}, {2, 2, 6}, 4);
      }
}

inline void add_movement_variants(std::vector<Sample>& all) {
  const HostValue m = reals({2, 3, 4}, 171), empty = reals({2, 0, 3}, 172), one = reals({2, 1, 3}, 173), scalar = reals({}, 174);
  const auto add = [&](OpKind op, Attrs a, std::vector<HostValue> in) { all.push_back({op, std::move(a), std::move(in)}); };
  add(OpKind::Reshape, DimsAttrs{{Dim(1), Dim(1)}, false}, {scalar});
  add(OpKind::Reshape, DimsAttrs{{}, false}, {reals({1, 1}, 175)});
  add(OpKind::Reshape, DimsAttrs{{Dim(3), Dim(0)}, false}, {empty});
  add(OpKind::Transpose, PermAttrs{{}}, {scalar});
  add(OpKind::Transpose, PermAttrs{{1, 2, 0}}, {empty});
  add(OpKind::Expand, DimsAttrs{{Dim(2), Dim(3)}, false}, {scalar});
  add(OpKind::Expand, DimsAttrs{{Dim(4), Dim(2), Dim(5), Dim(3)}, false}, {one});
  add(OpKind::Expand, DimsAttrs{{Dim(2), Dim(0), Dim(3)}, false}, {one});
  for (int64_t len : {0, 1, 3}) add(OpKind::Narrow, NarrowAttrs{1, Dim(0), Dim(len)}, {m});
  add(OpKind::Narrow, NarrowAttrs{0, Dim(1), Dim(1)}, {m});
  add(OpKind::Slice, SliceAttrs{1, Dim(2), Dim(3), -1}, {m});
  add(OpKind::Slice, SliceAttrs{2, Dim(1), Dim(2), 2}, {m});
  add(OpKind::Slice, SliceAttrs{0, Dim(1), Dim(1), -3}, {m});
  add(OpKind::Slice, SliceAttrs{1, Dim(0), Dim(0), 2}, {m});
  add(OpKind::Concat, AxisAttrs{0}, {m, reals({1, 3, 4}, 176)});
  add(OpKind::Concat, AxisAttrs{2}, {m, reals({2, 3, 0}, 177), reals({2, 3, 1}, 178)});
  add(OpKind::Concat, AxisAttrs{1}, {m});
  for (int64_t axis : {0, 1, 2}) {
    add(OpKind::Gather, AxisAttrs{axis}, {m, i64({}, {-1})});
    add(OpKind::Gather, AxisAttrs{axis}, {m, i64({3}, {1, 1, -2})});
    add(OpKind::Gather, AxisAttrs{axis}, {m, i64({2, 0}, {})});
  }
  add(OpKind::GatherElements, AxisAttrs{0}, {m, i64({1, 3, 2}, {1, 0, -1, -2, 0, 0})});
  add(OpKind::GatherElements, AxisAttrs{2}, {m, i64({2, 1, 3}, {3, 3, -4, 0, 2, 2})});
  add(OpKind::GatherNd, BatchDimsAttrs{1}, {m, i64({2, 2, 1}, {2, -1, 0, 0})});
  add(OpKind::GatherNd, BatchDimsAttrs{2}, {m, i64({2, 3, 1}, {3, 0, -1, 1, 1, 2})});
  add(OpKind::GatherNd, BatchDimsAttrs{0}, {m, i64({2, 3}, {1, 2, -1, 1, 2, 3})});
  for (Reduction r : {Reduction::None, Reduction::Add, Reduction::Mul, Reduction::Max, Reduction::Min}) {
    const bool unique = r == Reduction::None;
    add(OpKind::ScatterElements, ScatterAttrs{0, r},
        {reals({3, 2}, 179), i64({2, 2}, {-1, 0, unique ? 0.0 : 2.0, 1}), reals({2, 2}, 180)});
    add(OpKind::ScatterElements, ScatterAttrs{2, r}, {m, i64({2, 1, 2}, {3, unique ? 0.0 : -1.0, 2, 1}), reals({2, 1, 2}, 181)});
    add(OpKind::ScatterElements, ScatterAttrs{1, r}, {m, i64({0, 2, 2}, {}), reals({0, 2, 2}, 182)});
    add(OpKind::ScatterNd, ScatterAttrs{0, r}, {m, i64({2, 2}, {1, 2, unique ? 0.0 : 1.0, -1}), reals({2, 4}, 183)});
    add(OpKind::ScatterNd, ScatterAttrs{0, r}, {m, i64({3, 3}, {1, 2, 3, 0, 0, 0, unique ? 1.0 : 0.0, 0, 0}), reals({3}, 184)});
    add(OpKind::ScatterNd, ScatterAttrs{0, r}, {m, i64({2, 1, 1}, {-1, unique ? 0.0 : 1.0}), reals({2, 1, 3, 4}, 185)});
  }
  const HostValue nil = tensor_of(DType::F64, {4}, {0.0, 1.0, 2.0, 0.0});
  add(OpKind::ScatterElements, ScatterAttrs{0, Reduction::Mul},
      {nil, i64({4}, {0, 1, 1, 3}), tensor_of(DType::F64, {4}, {0.0, 0.0, 3.0, 2.0})});
  for (PadMode mode : {PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap}) {
    add(OpKind::Pad, PadAttrs{{Dim(0), Dim(2), Dim(1)}, {Dim(1), Dim(0), Dim(3)}, mode}, {m});
    add(OpKind::Pad, PadAttrs{{Dim(-1), Dim(0), Dim(2)}, {Dim(0), Dim(-2), Dim(-1)}, mode}, {m});
    add(OpKind::Pad, PadAttrs{{Dim(0), Dim(0), Dim(0)}, {Dim(0), Dim(0), Dim(0)}, mode}, {m});
    if (mode == PadMode::Edge || mode == PadMode::Constant)
      add(OpKind::Pad, PadAttrs{{Dim(1), Dim(2), Dim(0)}, {Dim(0), Dim(1), Dim(4)}, mode}, {one});
  }
  add(OpKind::Pad, PadAttrs{{Dim(-1), Dim(0), Dim(2)}, {Dim(0), Dim(-2), Dim(-1)}, PadMode::Constant}, {m, scalar});
  add(OpKind::Pad, PadAttrs{{Dim(0), Dim(2), Dim(0)}, {Dim(0), Dim(1), Dim(0)}, PadMode::Constant}, {empty, scalar});
  for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{}, {1}, {0, 1, 2}})
    add(OpKind::Reverse, AxesAttrs{axes}, {m});
  for (bool upper : {false, true})
    for (int64_t diagonal : {-5, -1, 0, 2, 9}) add(OpKind::Trilu, TriluAttrs{upper, diagonal}, {m});
  add(OpKind::Trilu, TriluAttrs{true, 0}, {m, i64({}, {-1})});
  add(OpKind::Tile, DimsAttrs{{Dim(1), Dim(1), Dim(1)}, false}, {m});
  add(OpKind::Tile, DimsAttrs{{Dim(1), Dim(0), Dim(2)}, false}, {m});
  add(OpKind::Tile, DimsAttrs{{Dim(1), Dim(4), Dim(2)}, false}, {one});
  for (int64_t axis : {0, 2}) add(OpKind::OneHot, OneHotAttrs{axis, Dim(3)}, {i64({2, 2}, {0, 2, -3, 5}), reals({2}, 186)});
  add(OpKind::OneHot, OneHotAttrs{0, Dim(1)}, {i64({}, {0}), reals({2}, 187)});
  for (int64_t n : {0, 1}) add(OpKind::Range, DimsAttrs{{Dim(n)}, false}, {reals({}, 188), reals({}, 189)});
  add(OpKind::Unique, UniqueAttrs{1, true, false}, {reals({2, 3}, 190)});
  add(OpKind::Unique, UniqueAttrs{0, false, false}, {reals({3, 2}, 191)});
}

inline void add_resize_variants(std::vector<Sample>& all) {
  const auto add = [&](ResizeAttrs a, std::vector<int64_t> from, std::vector<int64_t> to) {
    for (int64_t d : to) a.sizes.push_back(Dim(d));
    all.push_back({OpKind::Resize, a, {reals(std::move(from), 195)}});
  };
  for (size_t c = 0; c < enum_names(CoordMode{}).size(); ++c) {
    const auto coord = static_cast<CoordMode>(c);
    const std::vector<double> roi =
        coord == CoordMode::TfCropAndResize ? std::vector<double>{0, 0.1, 1, 1.2} : std::vector<double>{};
    for (size_t n = 0; n < enum_names(NearestMode{}).size(); ++n) {
      ResizeAttrs a;
      a.coord = coord, a.nearest = static_cast<NearestMode>(n), a.roi = roi, a.extrapolation = 0.3;
      add(a, {2, 5}, {2, 8}), add(a, {3, 5}, {2, 3});
    }
    for (ResizeMode mode : {ResizeMode::Linear, ResizeMode::Cubic})
      for (int how = 0; how < 4; ++how) {
        ResizeAttrs a;
        a.mode = mode, a.coord = coord, a.roi = roi, a.extrapolation = 0.3;
        a.exclude_outside = how == 1, a.antialias = how == 2, a.cubic_a = how == 3 ? -0.5 : -0.75;
        if (a.antialias && coord == CoordMode::TfCropAndResize) continue;
        add(a, {2, 5}, {2, 8}), add(a, {3, 5}, {2, 3}), add(a, {2, 4}, {2, 1});
        if (roi.empty()) add(a, {1, 2, 4, 1}, {1, 2, 3, 2});
      }
  }
}

inline void add_network_variants(std::vector<Sample>& all) {
  const HostValue q = reals({2, 4, 3, 2}, 201), k = reals({2, 2, 5, 2}, 202), v = reals({2, 2, 5, 3}, 203);
  AttentionAttrs a;
  a.num_heads = 4, a.num_kv_heads = 2, a.mask = MaskKind::Bias;
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{2, 4, 3, 5}, {1, 1, 3, 5}, {4, 1, 5}, {2, 1, 1, 5}})
    all.push_back({OpKind::Attention, a, {q, k, v, reals(dims, 204)}});
  a.mask = MaskKind::Custom;
  for (bool finite : {false, true}) {
    a.finite_mask = finite;
    all.push_back({OpKind::Attention, a, {q, k, v, bools({3, 5}, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1})}});
  }
  a = {};
  a.num_heads = 4, a.num_kv_heads = 2, a.mask = MaskKind::SlidingWindow, a.window = 1, a.scale = 0.4, a.softcap = 1.1;
  all.push_back({OpKind::Attention, a, {q, k, v}});
  a = {};
  a.num_heads = 2, a.num_kv_heads = 1, a.layout = a.out_layout = AttentionLayout::Packed;
  all.push_back({OpKind::Attention, a, {reals({1, 3, 4}, 205), reals({1, 2, 2}, 206), reals({1, 2, 3}, 207)}});
  a.layout = a.out_layout = AttentionLayout::BSHD, a.mask = MaskKind::Causal;
  all.push_back({OpKind::Attention, a, {reals({1, 3, 2, 2}, 208), reals({1, 3, 1, 2}, 209), reals({1, 3, 1, 3}, 210)}});
  a.layout = a.out_layout = AttentionLayout::BHSD, a.k_transposed = true;
  all.push_back({OpKind::Attention, a, {reals({1, 2, 3, 2}, 211), reals({1, 1, 2, 3}, 212), reals({1, 1, 3, 2}, 213)}});

  for (RopeStyle style : {RopeStyle::NeoX, RopeStyle::GptJ}) {
    const HostValue cos = reals({3, 2}, 214), sin = reals({3, 2}, 215);
    all.push_back({OpKind::Rope, RopeAttrs{6, 4, style, AttentionLayout::Packed}, {reals({2, 3, 12}, 216), cos, sin}});
    all.push_back({OpKind::Rope, RopeAttrs{4, 4, style, AttentionLayout::BHSD}, {reals({2, 2, 3, 4}, 217), cos, sin}});
    all.push_back({OpKind::Rope, RopeAttrs{4, 4, style, AttentionLayout::BSHD}, {reals({2, 3, 2, 4}, 218), cos, sin}});
    all.push_back({OpKind::Rope,
                   RopeAttrs{4, 4, style, AttentionLayout::Packed, 1e-3},
                   {reals({2, 3, 8}, 219), cos, sin, reals({4}, 220)}});
  }

  for (OpKind op : {OpKind::Lstm, OpKind::Gru, OpKind::Rnn}) {
    const int64_t gates = op == OpKind::Lstm ? 4 : op == OpKind::Gru ? 3 : 1;
    for (RnnDirection direction : {RnnDirection::Forward, RnnDirection::Reverse, RnnDirection::Bidirectional})
      for (bool batch_first : {false, true})
        for (int how = 0; how < 4; ++how) {
          const int64_t dirs = direction == RnnDirection::Bidirectional ? 2 : 1, batch = 2, hidden = 2;
          RnnAttrs r;
          r.hidden = hidden, r.direction = direction, r.batch_first = batch_first;
          r.linear_before_reset = op == OpKind::Gru && how % 2 == 1;
          if (how == 3 && op == OpKind::Rnn)
            r.activations.assign(static_cast<size_t>(dirs), "Affine"), r.activation_alpha.assign(static_cast<size_t>(dirs), 0.5),
                r.activation_beta.assign(static_cast<size_t>(dirs), 0.1);
          if (how == 2 && op == OpKind::Rnn) r.activations.assign(static_cast<size_t>(dirs), "Relu");
          const std::vector<int64_t> x = batch_first ? std::vector<int64_t>{batch, 3, 2} : std::vector<int64_t>{3, batch, 2};
          const std::vector<int64_t> state =
              batch_first ? std::vector<int64_t>{batch, dirs, hidden} : std::vector<int64_t>{dirs, batch, hidden};
          Sample s{op, r, {reals(x, 221), reals({dirs, gates * hidden, 2}, 222), reals({dirs, gates * hidden, hidden}, 223)}};
          s.in.push_back(how == 0 ? absent() : reals({dirs, 2 * gates * hidden}, 224));
          s.in.push_back(how == 2 ? tensor_of(DType::I32, {2}, {3.0, 1.0}) : absent());
          s.in.push_back(how == 0 ? absent() : reals(state, 225));
          if (op == OpKind::Lstm) s.in.push_back(how == 0 ? absent() : reals(state, 226));
          if (op == OpKind::Lstm && how == 3) s.in.push_back(reals({dirs, 3 * hidden}, 227));
          while (s.in.back().kind == TypeKind::Optional) s.in.pop_back();
          all.push_back(std::move(s));
        }
  }
}

// Where the derivative is not unique: both directions make the same choice.
inline std::vector<Sample> kink_samples() {
  const auto f64 = [](std::vector<int64_t> dims, std::vector<double> v) { return tensor_of(DType::F64, std::move(dims), v); };
  const HostValue x = f64({2, 3}, {1, 1, 0, 0, 2, 2}), y = f64({2, 3}, {1, 0, 0, 0, 2, 3}),
                  zeros = f64({2, 3}, {0, 0, 0, 0, 0, 0});
  PoolAttrs pool;
  pool.kernel = {2}, pool.strides = {1}, pool.pads_begin = pool.pads_end = {0}, pool.dilations = {1};
  std::vector<Sample> all{
      {OpKind::Max, NoAttrs{}, {x, y}},
      {OpKind::Min, NoAttrs{}, {x, y}},
      {OpKind::PRelu, NoAttrs{}, {zeros, y}},
      {OpKind::Clamp, ClampAttrs{0, 1}, {x}},
      {OpKind::Pool, pool, {f64({1, 2, 3}, {1, 1, 0, 0, 2, 2})}},
      {OpKind::MaxPoolIndices, pool, {f64({1, 2, 3}, {1, 1, 0, 0, 2, 2})}},
      {OpKind::TopK, TopKAttrs{Dim(2), 1, true, true}, {x}},
      {OpKind::TopK, TopKAttrs{Dim(1), 0, false, true}, {x}},
      {OpKind::Unique, UniqueAttrs{0, true, true}, {x}},
      {OpKind::Atan2, NoAttrs{}, {zeros, zeros}},
      {OpKind::Pow, NoAttrs{}, {zeros, y}},
  };
  for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min, ReduceOp::L1, ReduceOp::L2})
    for (const HostValue& v : {x, zeros}) all.push_back({OpKind::Reduce, ReduceAttrs{op, {1}, false}, {v}});
  for (Reduction r : {Reduction::Max, Reduction::Min})
    all.push_back({OpKind::ScatterElements, ScatterAttrs{1, r}, {x, i64({2, 2}, {0, 0, 1, 2}), f64({2, 2}, {1, 1, 2, 2})}});
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    const bool is_finite = op != OpKind::Log && op != OpKind::Recip && op != OpKind::Rsqrt && op != OpKind::Acosh;
    if (transform::has_slope(op) && is_finite) all.push_back({op, default_attrs(op), {zeros}});
  }
  return all;
}

inline std::vector<Sample> variant_samples() {
  std::vector<Sample> all;
  for (const auto add : {add_elementwise_variants, add_reduction_variants, add_norm_variants, add_product_variants,
                         add_window_variants, add_movement_variants, add_resize_variants, add_network_variants})
    add(all);
  return all;
}

}  // namespace rlxc::test
