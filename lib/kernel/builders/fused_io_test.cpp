// One epilogue after a matmul of two sums and after a pooling: views of one argument, and a quantization that follows other ops.
#include "kernel/builders/fused_io.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernel/builders/gemm.h"
#include "kernel/builders/window.h"
#include "support/kernel_check.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

constexpr double kScale = 0.5, kZero = 3, kBack = 0.25;  // all values are exact

double quantized_again(double v, bool back) {
  const double q = std::clamp(std::nearbyint(v / kScale) + kZero, -128.0, 127.0);
  return back ? (q - kZero) * kBack : q;
}

// Quantizes the result, of `axes` axes.
kernel::Epilogue quantize(size_t axes, bool back) {
  kernel::Epilogue e;
  for (const auto& [name, t] : {std::pair{"scale", DType::F32}, {"zero", DType::I8}, {"back", DType::F32}})
    if (back || e.inputs.size() < 2) e.inputs.push_back({name, t, Dims(axes, 0), 1, 0});
  e.body = [back](std::span<const Expr> roots, const LoadInput& load) -> std::vector<Expr> {
    return {quantized(roots[0], load, 0, back)};
  };
  return e;
}

void add_numbers(KernelCase* c, bool back) {
  c->buffers.insert(c->buffers.end(), {{DType::F32, {kScale}}, {DType::I8, {kZero}}});
  if (back) c->buffers.push_back({DType::F32, {kBack}});
}

// (sum of columns j + bias j) * (sum of columns n + j + bias n + j), quantized; the sum of columns j is a further result.
KernelCase gated(int64_t m, int64_t n, int64_t k, bool back) {
  KernelCase c;
  c.name = "gate " + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) + (back ? ", back" : "");
  c.build = [=](kernel::Builder& b, const Mapping& mapping) {
    GemmSpec s;
    s.m = m, s.n = n, s.k = k, s.two_sums = true;
    s.a = dense(b.kernel(), "a", DType::F32, {m, k});
    s.b = dense(b.kernel(), "b", DType::F32, {k, 2 * n});
    s.c = dense(b.kernel(), "c", back ? DType::F32 : DType::I8, {m, n});
    const Operand bias{"bias", DType::F32, {0, 1}, 2 * n, 0};
    s.epilogue.inputs = {bias, bias};
    s.epilogue.inputs[1].offset = n;
    s.epilogue.inputs[1].view = true;
    s.epilogue.also = {dense(b.kernel(), "also", DType::F32, {m, n})};
    s.epilogue.body = [](std::span<const Expr> sums, const LoadInput& load) -> std::vector<Expr> {
      return {(sums[0] + load(0)) * (sums[1] + load(1)), sums[0]};
    };
    append(&s.epilogue, quantize(2, back));
    build_gemm(b, s, mapping);
  };
  const auto values = [](int64_t count, uint64_t seed) {
    std::vector<double> v = random_values(static_cast<size_t>(count), DType::F32, -2, 2, seed);
    for (double& x : v) x = std::nearbyint(x);
    return v;
  };
  const std::vector<double> a = values(m * k, 1), b = values(k * 2 * n, 2), bias = values(2 * n, 3);
  CheckBuffer y{back ? DType::F32 : DType::I8, {}, true}, also{DType::F32, {}, true};
  const auto sum = [&](int64_t i, int64_t j) {
    double s = 0;
    for (int64_t p = 0; p < k; ++p) s += a[static_cast<size_t>(i * k + p)] * b[static_cast<size_t>(p * 2 * n + j)];
    return s;
  };
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const double first = sum(i, j) + bias[static_cast<size_t>(j)], second = sum(i, n + j) + bias[static_cast<size_t>(n + j)];
      y.values.push_back(quantized_again(first * second, back));
      also.values.push_back(sum(i, j));
    }
  c.buffers = {{DType::F32, a}, {DType::F32, b}, {DType::F32, bias}};
  add_numbers(&c, back);
  c.buffers.push_back(y);
  c.buffers.push_back(also);
  return c;
}

// The mean of windows of two pixels, plus a number per channel, quantized.
KernelCase mean_pool(int64_t channels, int64_t width, bool back) {
  KernelCase c;
  c.name = "pool " + std::to_string(channels) + "x" + std::to_string(width) + (back ? ", back" : "");
  c.build = [=](kernel::Builder& b, const Mapping& mapping) {
    PoolSpec p;
    WindowSpec& w = p.window;
    w.in_channels = w.out_channels = channels;
    w.in_size = {2 * width}, w.out_size = {width};
    w.kernel = w.strides = {2}, w.pads_begin = w.pads_end = {0}, w.dilations = {1};
    w.output = back ? DType::F32 : DType::I8;
    p.start = [](Kernel* k) { return constant(k, DType::F32, 0); };
    p.step = [](Expr sum, Expr v) { return sum + v; };
    p.counts = true;
    p.epilogue.inputs = {{"bias", DType::F32, {0, 1, 0}, channels, 0}};
    p.epilogue.body = [](std::span<const Expr> sum, const LoadInput& load) -> std::vector<Expr> {
      return {sum[0] / cast_to(sum[1], DType::F32) + load(0)};
    };
    append(&p.epilogue, quantize(3, back));
    build_pool(b, p, mapping);
  };
  const auto count = static_cast<size_t>(channels * width);
  std::vector<double> x = random_values(2 * count, DType::F32, -9, 9, 4), bias;
  for (double& v : x) v = std::nearbyint(v);
  for (int64_t i = 0; i < channels; ++i) bias.push_back(static_cast<double>(i));
  CheckBuffer y{back ? DType::F32 : DType::I8, {}, true};
  for (size_t i = 0; i < count; ++i)
    y.values.push_back(quantized_again((x[2 * i] + x[2 * i + 1]) / 2 + bias[i / static_cast<size_t>(width)], back));
  c.buffers = {{DType::F32, x}, {DType::F32, bias}};
  add_numbers(&c, back);
  c.buffers.push_back(y);
  return c;
}

}  // namespace

TEST_CASE("epilogues read views of one argument and append a quantization") {
  std::vector<KernelCase> cases;
  for (const bool back : {false, true}) {
    cases.push_back(gated(1, 16, 8, back));
    cases.push_back(gated(5, 32, 8, back));
    cases.push_back(mean_pool(3, 5, back));
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("views of arguments add none") {
  kernel::Builder b("k");
  b.input("zero", DType::I8, 1);
  Operand zero{"zero", DType::I8, {0}, 1, 0};
  zero.view = true;
  const FusedInputs inputs(b, {{"scale", DType::F32, {0}, 1, 0}, zero, zero});
  CHECK(inputs.size() == 3);
  CHECK(b.kernel()->buffers.size() == 2);
}
