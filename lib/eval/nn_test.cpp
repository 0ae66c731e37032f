#include <cmath>

#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;
using enum OpKind;

namespace {
std::vector<double> ramp(size_t n, double step = 0.37) {
  std::vector<double> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = std::sin(static_cast<double>(i) * step + 0.1);
  return v;
}
ConvAttrs conv_attrs(std::vector<int64_t> strides, std::vector<int64_t> begin, std::vector<int64_t> end,
                     std::vector<int64_t> dilations, int64_t groups = 1) {
  ConvAttrs a;
  a.strides = strides, a.pads_begin = begin, a.pads_end = end, a.dilations = dilations, a.groups = groups;
  return a;
}
}  // namespace

TEST_CASE("matmul: broadcast, transposes, types") {
  check_values(run1(MatMul, MatMulAttrs{}, {f32({2, 2}, {1, 2, 3, 4}), f32({2, 2}, {5, 6, 7, 8})}), {19, 22, 43, 50});
  check_values(run1(MatMul, MatMulAttrs{true, false}, {f32({2, 2}, {1, 3, 2, 4}), f32({2, 2}, {5, 6, 7, 8})}), {19, 22, 43, 50});
  check_values(run1(MatMul, MatMulAttrs{false, true}, {f32({2, 2}, {1, 2, 3, 4}), f32({2, 2}, {5, 7, 6, 8})}), {19, 22, 43, 50});
  check_values(run1(MatMul, MatMulAttrs{}, {i64({1, 2}, {1, 2}), i64({2, 1}, {3, 4})}), {11});
  // [2,1,9,5] x [3,5,7] against a naive sum.
  const auto a = ramp(90), b = ramp(105, 0.7);
  const auto y =
      numbers(run1(MatMul, MatMulAttrs{}, {tensor_of(DType::F64, {2, 1, 9, 5}, a), tensor_of(DType::F64, {3, 5, 7}, b)}));
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 3; ++j)
      for (size_t m = 0; m < 9; ++m)
        for (size_t n = 0; n < 7; ++n) {
          double sum = 0;
          for (size_t k = 0; k < 5; ++k) sum += a[(i * 9 + m) * 5 + k] * b[(j * 5 + k) * 7 + n];
          CHECK(y[((i * 3 + j) * 9 + m) * 7 + n] == doctest::Approx(sum));
        }
}

TEST_CASE("dot_general: result axes are batch, lhs free, rhs free") {
  DotGeneralAttrs a;
  a.lhs_batch = {1}, a.rhs_batch = {0}, a.lhs_contracting = {2}, a.rhs_contracting = {1};
  const auto x = ramp(24), y = ramp(60, 0.9);  // [2,3,4] and [3,4,5] -> [3,2,5]
  const auto z = numbers(run1(DotGeneral, a, {tensor_of(DType::F64, {2, 3, 4}, x), tensor_of(DType::F64, {3, 4, 5}, y)}));
  REQUIRE(z.size() == 30);
  for (size_t b = 0; b < 3; ++b)
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 5; ++j) {
        double sum = 0;
        for (size_t k = 0; k < 4; ++k) sum += x[(i * 3 + b) * 4 + k] * y[(b * 4 + k) * 5 + j];
        CHECK(z[(b * 2 + i) * 5 + j] == doctest::Approx(sum));
      }
}

TEST_CASE("reduce: every reduction, any axes") {
  const auto x = f32({2, 3}, {1, -2, 3, 4, 5, -6});
  const auto over = [&](ReduceOp op, std::vector<int64_t> axes) { return run1(Reduce, ReduceAttrs{op, axes, false}, {x}); };
  check_values(over(ReduceOp::Sum, {0}), {5, 3, -3});
  check_values(over(ReduceOp::Mean, {1}), {2.0 / 3, 1});
  check_values(over(ReduceOp::Max, {0, 1}), {5});
  check_values(over(ReduceOp::Min, {1}), {-2, -6});
  check_values(over(ReduceOp::Prod, {1}), {-6, -120});
  check_values(over(ReduceOp::L1, {1}), {6, 15});
  check_values(over(ReduceOp::L2, {0}), {std::sqrt(17.0), std::sqrt(29.0), std::sqrt(45.0)});
  check_values(over(ReduceOp::SumSquare, {1}), {14, 77});
  check_values(over(ReduceOp::LogSum, {0}), {std::log(5.0), std::log(3.0), std::nan("")});
  check_values(over(ReduceOp::LogSumExp, {1}),
               {std::log(std::exp(1) + std::exp(-2) + std::exp(3)), std::log(std::exp(4) + std::exp(5) + std::exp(-6))});
  check_values(run1(Reduce, ReduceAttrs{ReduceOp::LogSumExp, {0}, false}, {f32({2}, {1000, 1000})}), {1000 + std::log(2.0)});
  check_values(run1(Reduce, ReduceAttrs{ReduceOp::Sum, {1}, true}, {f32({2, 0}, {})}), {0, 0});
  check_values(over(ReduceOp::Sum, {}), {1, -2, 3, 4, 5, -6});
  check_values(run1(ArgReduce, ArgAttrs{1, true, false, false}, {f32({2, 3}, {1, 3, 3, 2, 2, 1})}), {1, 0});
  check_values(run1(ArgReduce, ArgAttrs{1, true, false, true}, {f32({2, 3}, {1, 3, 3, 2, 2, 1})}), {2, 1});
  for (const bool last : {false, true})  // comparisons with NaN are false
    check_values(run1(ArgReduce, ArgAttrs{1, true, false, last}, {f32({2, 3}, {NAN, 1, 2, 1, NAN, 3})}), {0, 2});
  check_values(run1(Cumsum, CumAttrs{1, true, true}, {f32({2, 3}, {1, 2, 3, 4, 5, 6})}), {5, 3, 0, 11, 6, 0});
  const auto top = run_op(TopK, TopKAttrs{Dim(2), 1, true, true}, {f32({2, 4}, {1, 5, 5, 2, 0, 0, 0, 0})});
  check_values(top[0], {5, 5, 0, 0});
  check_values(top[1], {1, 2, 0, 1});
}

TEST_CASE("softmax and normalisations") {
  const auto y = numbers(run1(Softmax, AxisAttrs{0}, {f32({2, 2}, {0, 1000, std::log(3.0), 1000})}));
  CHECK(y[0] == doctest::Approx(0.25));
  CHECK(y[2] == doctest::Approx(0.75));
  CHECK(y[1] == doctest::Approx(0.5));
  check_values(run1(LogSoftmax, AxisAttrs{1}, {f32({1, 2}, {0, std::log(3.0)})}), {std::log(0.25), std::log(0.75)});
  check_values(run1(LayerNorm, NormAttrs{1, 0}, {f32({1, 4}, {1, 2, 3, 4}), f32({4}, {1, 1, 2, 2}), f32({4}, {0, 1, 0, 1})}),
               {-1.5 / std::sqrt(1.25), 1 - 0.5 / std::sqrt(1.25), 1 / std::sqrt(1.25), 1 + 3 / std::sqrt(1.25)});
  check_values(run1(RmsNorm, NormAttrs{1, 0}, {f32({1, 2}, {3, 4}), f32({2}, {1, 10})}),
               {3 / std::sqrt(12.5), 40 / std::sqrt(12.5)});
  check_values(
      run1(GroupNorm, GroupNormAttrs{2, 0}, {f32({1, 4, 1}, {1, 3, 10, 30}), f32({4}, {1, 2, 3, 4}), f32({4}, {0, 0, 0, 1})}),
      {-1, 2, -3, 5});
  check_values(run1(BatchNormInference, NormAttrs{1, 0},
                    {f32({1, 2, 1}, {5, 7}), f32({2}, {2, 3}), f32({2}, {1, 0}), f32({2}, {3, 7}), f32({2}, {4, 1})}),
               {3, 0});
  check_values(run1(Lrn, LrnAttrs{3, 3, 1, 1}, {f32({1, 3, 1}, {1, 2, 3})}), {1.0 / 6, 2.0 / 15, 3.0 / 14});
}

TEST_CASE("conv: strides, pads, dilations, groups against the definition") {
  const auto x = ramp(2 * 4 * 7 * 6), w = ramp(6 * 2 * 3 * 2, 0.61), bias = ramp(6, 1.3);
  const auto a = conv_attrs({2, 1}, {1, 0}, {2, 1}, {1, 2}, 2);
  const auto r =
      run1(Conv, a,
           {tensor_of(DType::F64, {2, 4, 7, 6}, x), tensor_of(DType::F64, {6, 2, 3, 2}, w), tensor_of(DType::F64, {6}, bias)});
  REQUIRE(r.tensor.dims == std::vector<int64_t>{2, 6, 4, 5});
  const auto y = numbers(r);
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 5; ++j) {
          double sum = bias[static_cast<size_t>(o)];
          for (int ch = 0; ch < 2; ++ch)
            for (int u = 0; u < 3; ++u)
              for (int v = 0; v < 2; ++v) {
                const int row = i * 2 - 1 + u, column = j + v * 2;
                if (row < 0 || row >= 7 || column >= 6) continue;
                sum += x[static_cast<size_t>(((n * 4 + o / 3 * 2 + ch) * 7 + row) * 6 + column)] *
                       w[static_cast<size_t>(((o * 2 + ch) * 3 + u) * 2 + v)];
              }
          CHECK(y[static_cast<size_t>(((n * 6 + o) * 4 + i) * 5 + j)] == doctest::Approx(sum));
        }
}

TEST_CASE("conv_transpose is the adjoint of conv") {
  // <conv(x), g> = <x, conv_transpose(g)> in 1 and 3 axes.
  for (const size_t rank : {1u, 3u}) {
    const std::vector<int64_t> one(rank, 1), two(rank, 2);
    const auto a = conv_attrs(two, one, std::vector<int64_t>(rank, 0), one, 2);
    std::vector<int64_t> xd{1, 4}, wd{6, 2};
    for (size_t i = 0; i < rank; ++i) xd.push_back(6), wd.push_back(3);
    auto count = [](const std::vector<int64_t>& d) {
      size_t n = 1;
      for (int64_t k : d) n *= static_cast<size_t>(k);
      return n;
    };
    const auto x = tensor_of(DType::F64, xd, ramp(count(xd))), w = tensor_of(DType::F64, wd, ramp(count(wd), 0.71));
    const auto y = run1(Conv, a, {x, w});
    const auto g = tensor_of(DType::F64, y.tensor.dims, ramp(numbers(y).size(), 0.53));
    ConvAttrs t = a;
    t.output_padding = std::vector<int64_t>(rank, 0);
    const auto back = run1(ConvTranspose, t, {g, w});
    REQUIRE(back.tensor.dims == xd);
    double left = 0, right = 0;
    const auto yn = numbers(y), gn = numbers(g), xn = numbers(x), bn = numbers(back);
    for (size_t i = 0; i < yn.size(); ++i) left += yn[i] * gn[i];
    for (size_t i = 0; i < xn.size(); ++i) right += xn[i] * bn[i];
    CHECK(left == doctest::Approx(right));
  }
}

TEST_CASE("pool: pads, ceil mode, dilations, indices") {
  PoolAttrs p;
  p.kernel = {3}, p.strides = {2}, p.pads_begin = {1}, p.pads_end = {1}, p.dilations = {1};
  const auto x = f32({1, 1, 4}, {1, 5, 2, 4});
  check_values(run1(Pool, p, {x}), {5, 5});
  p.op = ReduceOp::Mean;
  check_values(run1(Pool, p, {x}), {3, 11.0 / 3});
  p.count_include_pad = true;
  check_values(run1(Pool, p, {x}), {2, 11.0 / 3});
  p.ceil_mode = true;
  check_values(run1(Pool, p, {x}), {2, 11.0 / 3, 4.0 / 2});
  PoolAttrs m;
  m.kernel = {2, 2}, m.strides = {1, 1}, m.pads_begin = {0, 0}, m.pads_end = {0, 0}, m.dilations = {1, 2};
  const auto y = run_op(MaxPoolIndices, m, {f32({1, 2, 2, 3}, {1, 2, 3, 9, 5, 6, 1, 1, 1, 0, 1, 1})});
  check_values(y[0], {9, 1});
  check_values(y[1], {3, 6});
  m.column_major = true;
  check_values(run_op(MaxPoolIndices, m, {f32({1, 1, 2, 3}, {1, 2, 3, 9, 5, 6})})[1], {1});
}

TEST_CASE("attention: layouts, grouped heads, masks") {
  const auto q = ramp(1 * 4 * 3 * 2), k = ramp(1 * 2 * 5 * 2, 0.9), v = ramp(1 * 2 * 5 * 2, 1.7);
  AttentionAttrs a;
  auto reference = [&](auto visible, double cap) {
    std::vector<double> out;
    for (int h = 0; h < 4; ++h)
      for (int i = 0; i < 3; ++i) {
        std::vector<double> w;
        double sum = 0;
        for (int j = 0; j < 5; ++j) {
          double s = 0;
          for (int d = 0; d < 2; ++d)
            s += q[static_cast<size_t>((h * 3 + i) * 2 + d)] * k[static_cast<size_t>((h / 2 * 5 + j) * 2 + d)];
          s /= std::sqrt(2.0);
          if (cap > 0) s = cap * std::tanh(s / cap);
          w.push_back(visible(i, j) ? std::exp(s) : 0);
          sum += w.back();
        }
        for (int d = 0; d < 2; ++d) {
          double y = 0;
          for (int j = 0; j < 5; ++j)
            y += sum > 0 ? w[static_cast<size_t>(j)] / sum * v[static_cast<size_t>((h / 2 * 5 + j) * 2 + d)] : 0;
          out.push_back(y);
        }
      }
    return out;
  };
  const std::vector<HostValue> in{tensor_of(DType::F64, {1, 4, 3, 2}, q), tensor_of(DType::F64, {1, 2, 5, 2}, k),
                                  tensor_of(DType::F64, {1, 2, 5, 2}, v)};
  check_values(run1(Attention, a, in), reference([](int, int) { return true; }, 0));
  a.mask = MaskKind::Causal, a.softcap = 0.5;
  check_values(run1(Attention, a, in), reference([](int i, int j) { return j <= i + 2; }, 0.5));
  a.mask = MaskKind::SlidingWindow, a.window = 1, a.softcap = 0;
  check_values(run1(Attention, a, in), reference([](int i, int j) { return j <= i + 2 && j >= i + 1; }, 0));
  a.mask = MaskKind::Custom;
  auto masked = in;
  masked.push_back(tensor_of(DType::Bool, {3, 5}, {1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
  const auto keep = numbers(masked[3]);
  check_values(run1(Attention, a, masked), reference([&](int i, int j) { return keep[static_cast<size_t>(i * 5 + j)] != 0; }, 0));
  // The packed layout of the same heads.
  std::vector<double> packed(24);
  for (size_t h = 0; h < 4; ++h)
    for (size_t s = 0; s < 3; ++s)
      for (size_t d = 0; d < 2; ++d) packed[s * 8 + h * 2 + d] = q[(h * 3 + s) * 2 + d];
  std::vector<double> pk(20), pv(20);
  for (size_t h = 0; h < 2; ++h)
    for (size_t s = 0; s < 5; ++s)
      for (size_t d = 0; d < 2; ++d)
        pk[s * 4 + h * 2 + d] = k[(h * 5 + s) * 2 + d], pv[s * 4 + h * 2 + d] = v[(h * 5 + s) * 2 + d];
  AttentionAttrs p;
  p.layout = AttentionLayout::Packed, p.num_heads = 4, p.num_kv_heads = 2;
  check_values(run1(Attention, p,
                    {tensor_of(DType::F64, {1, 3, 8}, packed), tensor_of(DType::F64, {1, 5, 4}, pk),
                     tensor_of(DType::F64, {1, 5, 4}, pv)}),
               reference([](int, int) { return true; }, 0));
}

TEST_CASE("rope: both pairings, both table widths") {
  const double c0 = std::cos(0.3), s0 = std::sin(0.3), c1 = std::cos(0.8), s1 = std::sin(0.8);
  const auto x = tensor_of(DType::F64, {1, 1, 1, 4}, {1, 2, 3, 4});
  const auto cos = tensor_of(DType::F64, {1, 2}, {c0, c1}), sin = tensor_of(DType::F64, {1, 2}, {s0, s1});
  RopeAttrs a;
  a.head_dim = 4, a.n_rot = 4;
  check_values(run1(Rope, a, {x, cos, sin}), {c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + s0, 4 * c1 + 2 * s1});
  check_values(
      run1(Rope, a, {x, tensor_of(DType::F64, {1, 4}, {c0, c1, c0, c1}), tensor_of(DType::F64, {1, 4}, {s0, s1, s0, s1})}),
      {c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + s0, 4 * c1 + 2 * s1});
  a.style = RopeStyle::GptJ;
  check_values(run1(Rope, a, {x, cos, sin}), {c0 - 2 * s0, 2 * c0 + s0, 3 * c1 - 4 * s1, 4 * c1 + 3 * s1});
  a.n_rot = 2;
  check_values(run1(Rope, a, {x, tensor_of(DType::F64, {1, 1}, {c0}), tensor_of(DType::F64, {1, 1}, {s0})}),
               {c0 - 2 * s0, 2 * c0 + s0, 3, 4});
}
