// Matmuls and convolutions through whole pipelines: kernels with dot units must equal the reference evaluator, of integers bit
// for bit, including sums of two products that exceed 16 bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "backend/backend.h"
#include "codegen/make_package.h"
#include "driver/compile.h"
#include "ir/builder.h"
#include "runtime/emulate_package.h"
#include "support/dot_net.h"

using namespace rlxc;
using enum OpKind;

namespace {

struct Product {
  std::vector<int64_t> a, b;  // sizes
  DType left = DType::U8, right = DType::I8;
  std::vector<int64_t> a_zero = {}, b_zero = {};  // sizes; {0}: none
  bool weight = true, turned = false;             // turned: columns of b are contiguous
};

ValueId right_of(Net& n, const Product& p) {
  if (!p.turned) return n.of(p.right, p.b, p.weight);
  std::vector<int64_t> dims = p.b, perm(dims.size());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(dims.end()[-1], dims.end()[-2]);
  std::swap(perm.end()[-1], perm.end()[-2]);
  return n.b.transpose(n.of(p.right, dims, p.weight), perm);
}

ValueId product(Net& n, const Product& p) {
  const auto zero = [&](DType t, const std::vector<int64_t>& dims) {
    return dims == std::vector<int64_t>{0} ? ValueId() : n.of(t, dims, true);
  };
  return n.b.create(QMatMul, {n.of(p.left, p.a), right_of(n, p), zero(p.left, p.a_zero), zero(p.right, p.b_zero)});
}

struct Window {
  std::vector<int64_t> x, w;
  ConvAttrs attrs;
  DType left = DType::U8, right = DType::I8;
  std::vector<int64_t> w_zero = {0};
};

ValueId convolution(Net& n, const Window& c) {
  const ValueId x = n.of(c.left, c.x), w = n.of(c.right, c.w, true), xz = n.of(c.left, {}, true);
  return n.b.create(QConv, {x, w, xz, c.w_zero == std::vector<int64_t>{0} ? ValueId() : n.of(c.right, c.w_zero, true)}, c.attrs);
}

ConvAttrs square(int64_t stride, int64_t pad, int64_t dilation = 1, int64_t groups = 1) {
  return {{stride, stride}, {pad, pad}, {pad, pad}, {dilation, dilation}, {}, groups};
}

const std::vector<int64_t> kNone = {0};
const Product kProducts[] = {
    {{1, 16}, {16, 16}},
    {{1, 67}, {67, 37}},
    {{7, 13}, {13, 5}},
    {{5, 64}, {64, 64}, DType::I8, DType::I8},
    {{13, 66}, {66, 130}, DType::I8, DType::U8},
    {{50, 36}, {36, 81}, DType::U8, DType::U8, {}, {81}},
    {{50, 35}, {35, 64}, DType::U8, DType::I8, {50, 1}, {64}},
    {{128, 64}, {64, 70}, DType::U8, DType::U8, kNone, kNone},
    {{33, 64}, {64, 48}, DType::I8, DType::I8, {}, {}, false},
    {{3, 9, 21}, {21, 33}, DType::U8, DType::I8, {}, kNone},
    {{3, 9, 21}, {21, 33}, DType::U8, DType::I8, {9, 1}, kNone},
    {{2, 3, 9, 20}, {3, 20, 18}, DType::U8, DType::I8, {}, {}},
    {{800, 17}, {17, 20}, DType::U8, DType::U8, {}, {20}},
    {{33, 64}, {64, 50}, DType::I8, DType::I8, {}, {}, false, true},
    {{2, 3, 20, 128}, {2, 3, 128, 35}, DType::U8, DType::U8, {}, {}, false, true},
    {{20, 32}, {32, 18}, DType::U8, DType::I8, kNone, kNone, true, true},
    {{20, 22}, {22, 18}, DType::U8, DType::I8, {}, kNone, false, true},
    {{3, 64}, {64, 18}, DType::U8, DType::U8, {}, {}, false, true},
    {{39, 76}, {76, 33}, DType::I8, DType::U8, {}, {33}},
};

}  // namespace

TEST_CASE("integer products of awkward shapes and zero points are exact") {
  for (const Product& p : kProducts)
    for (const char* cpu : {"generic", "neoverse-v1"}) {
      Net n;
      n.cpu = cpu;
      const ValueId y = product(n, p);
      n.check(y, QMatMul, std::string(cpu) + ", " + std::to_string(p.a.back()) + " terms");
    }
}

TEST_CASE("products of bf16 run on a processor's dot or matrix unit") {
  struct Halves {
    std::vector<int64_t> a, b;
    bool trans_b = false, weight = true, ends = false;
  };
  for (const Halves& p : {Halves{{1, 16}, {16, 16}},
                          {{1, 67}, {67, 37}},
                          {{7, 13}, {13, 5}, false, true, true},
                          {{50, 36}, {81, 36}, true, true, true},
                          {{128, 64}, {64, 70}},
                          {{33, 64}, {64, 48}, false, false},
                          {{3, 9, 21}, {33, 21}, true},
                          {{2, 3, 9, 20}, {3, 20, 18}},
                          {{800, 17}, {17, 20}, false, true, true}})
    for (const char* cpu : {"zen4", "neoverse-v1"}) {
      Net n;
      n.cpu = cpu;
      const ValueId x = n.floats(p.a, -1, 1, false, DType::BF16), w = n.floats(p.b, -1, 1, p.weight, DType::BF16);
      ValueId y = n.b.create(MatMul, {x, w}, MatMulAttrs{.trans_a = false, .trans_b = p.trans_b});
      if (p.ends) {
        const int64_t columns = p.trans_b ? p.b[0] : p.b.back();
        y = n.b.unary(Relu, n.b.add(y, n.floats({columns}, -1, 1, true, DType::BF16)));
      }
      n.check(y, p.ends ? FusedMatMulBiasAct : MatMul, std::string(cpu) + ", " + std::to_string(p.a.back()) + " terms", 1e-2,
              2e-2 * std::sqrt(static_cast<double>(p.a.back())));
    }
}

namespace {

const Window kWindows[] = {
    {{1, 8, 9, 9}, {16, 8, 3, 3}, square(1, 1)},
    {{2, 3, 11, 7}, {5, 3, 3, 3}, square(2, 1)},
    {{1, 6, 8, 8}, {7, 6, 1, 1}, square(1, 0), DType::I8, DType::I8},
    {{1, 16, 10, 10}, {12, 16, 1, 1}, square(2, 0), DType::I8, DType::U8, {12}},
    {{1, 10, 9, 13}, {8, 5, 3, 3}, square(1, 2, 2, 2), DType::U8, DType::U8, {}},
    {{1, 260, 4, 4}, {9, 260, 3, 3}, square(1, 1), DType::U8, DType::I8, {9}},
    {{1, 4, 20, 20}, {50, 4, 5, 5}, square(1, 2), DType::U8, DType::U8, {50}},
    {{1, 4, 9, 9}, {4, 1, 3, 3}, square(1, 1, 1, 4)},
    {{1, 5, 30}, {6, 5, 3}, {{1}, {1}, {1}, {1}, {}, 1}, DType::I8, DType::I8},
};

}  // namespace

TEST_CASE("integer convolutions of awkward shapes and zero points are exact") {
  for (const Window& w : kWindows)
    for (const char* cpu : {"generic", "neoverse-v1"}) {
      Net n;
      n.cpu = cpu;
      const ValueId y = convolution(n, w);
      n.check(y, QConv, std::string(cpu) + ", " + std::to_string(w.w[1]) + " channels");
    }
}

namespace {

// A product or convolution with a residual and an activation, requantized.
ValueId with_steps(Net& n, bool convolved, DType to) {
  const ValueId sums = convolved ? convolution(n, {{1, 8, 9, 9}, {20, 8, 3, 3}, square(1, 1)})
                                 : product(n, {{2, 21, 24}, {24, 75}, DType::U8, DType::I8, {}, {75}});
  const std::vector<int64_t> columns = convolved ? std::vector<int64_t>{20, 1, 1} : std::vector<int64_t>{75};
  const ValueId scaled = n.b.mul(n.b.cast(sums, DType::F32), n.floats(columns, 0x1p-9, 0x1p-7));
  const ValueId residual = n.of(DType::U8, convolved ? std::vector<int64_t>{1, 20, 9, 9} : std::vector<int64_t>{2, 21, 75});
  const ValueId y = n.b.unary(Relu, n.b.add(scaled, n.b.cast(residual, DType::F32)));
  if (to == DType::F32) return y;
  return n.b.create(Quantize, {y, n.b.scalar(DType::F32, 2), n.value(eval::tensor_of(to, {}, {3}).tensor, true)},
                    QuantAttrs{0, 0, to});
}

}  // namespace

TEST_CASE("rows of floats are quantized by the integer product that reads them") {
  struct Rows {
    std::vector<int64_t> x;
    int64_t columns;
    DType left = DType::U8, right = DType::I8;
    bool b_zero = false;
  };
  for (const Rows& p : {Rows{{3, 5}, 16},
                        {{40, 64}, 6, DType::I8},
                        {{2, 70, 18}, 60, DType::U8, DType::U8, true},
                        {{200, 33}, 70, DType::I8, DType::I8, true},
                        {{900, 100}, 200},
                        {{1, 8}, 9}})
    for (const char* cpu : {"generic", "haswell", "zen4", "neoverse-v1"}) {
      Net n;
      n.cpu = cpu;
      const int64_t k = p.x.back();
      const ValueId x = n.floats(p.x, -40, 40, false), zero = n.value(eval::tensor_of(p.left, {}, {7}).tensor, true);
      const ValueId codes = n.b.create(Quantize, {x, n.b.scalar(DType::F32, 0.25), zero}, QuantAttrs{0, 0, p.left});
      const ValueId w = n.of(p.right, {k, p.columns}, true), w_zero = p.b_zero ? n.of(p.right, {p.columns}, true) : ValueId();
      n.check(n.b.create(QMatMul, {codes, w, zero, w_zero}), FusedQMatMul,
              std::string(cpu) + ", " + std::to_string(k) + " terms");
    }
}

TEST_CASE("an integer product copies rows that are not contiguous, and rounds those of floats") {
  struct Columns {
    std::vector<int64_t> x;  // of the transposed operand
    int64_t columns;
    DType left = DType::U8, right = DType::I8;
    bool floats = false;
  };
  for (const Columns& p : {Columns{{2, 128, 16}, 20},
                           {{64, 40}, 64, DType::I8},
                           {{3, 18, 70}, 130, DType::U8, DType::U8},
                           {{2, 64, 40}, 48, DType::I8, DType::I8, true},
                           {{33, 200}, 70, DType::U8, DType::I8, true},
                           {{2, 8, 1}, 9}})
    for (const char* cpu : {"generic", "haswell", "zen4", "neoverse-v1"}) {
      Net n;
      n.cpu = cpu;
      const std::vector<int64_t> turn = p.x.size() == 2 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 2, 1};
      const ValueId zero = n.value(eval::tensor_of(p.left, {}, {7}).tensor, true), scale = n.b.scalar(DType::F32, 0.25);
      ValueId rows = n.b.transpose(p.floats ? n.floats(p.x, -40, 40, false) : n.of(p.left, p.x), turn);
      if (p.floats) rows = n.b.create(Quantize, {rows, scale, zero}, QuantAttrs{0, 0, p.left});
      const ValueId w = n.of(p.right, {p.x.end()[-2], p.columns}, true);
      const ValueId sums = n.b.create(QMatMul, {rows, w, zero});
      n.check(n.b.mul(n.b.cast(sums, DType::F32), scale), FusedQMatMul,
              std::string(cpu) + ", " + std::to_string(p.columns) + " columns");
    }
}

TEST_CASE("dequantized values of 16 bits are multiplied as digits of 8 bits where a dot product of bytes is one instruction") {
  for (const char* cpu : {"zen4", "neoverse-v1"})
    for (const bool convolved : {false, true})
      for (const DType type : {DType::U16, DType::I16}) {
        Net n;
        n.cpu = cpu;
        const ValueId scale = n.b.scalar(DType::F32, 0.01), zero = n.b.scalar(type, type == DType::U16 ? 30000 : -500);
        const ValueId x = n.floats(convolved ? std::vector<int64_t>{1, 6, 9, 7} : std::vector<int64_t>{33, 70}, -200, 200, false);
        const ValueId codes = n.b.create(Quantize, {x, scale, zero}, QuantAttrs{0, 0, type});
        const ValueId a = n.b.create(Dequantize, {codes, scale, zero}, QuantAttrs{0, 0, DType::F32});
        const int64_t columns = convolved ? 24 : 200;
        const ValueId w =
            n.of(DType::I8, convolved ? std::vector<int64_t>{columns, 6, 3, 3} : std::vector<int64_t>{70, columns}, true);
        const ValueId b =
            n.b.create(Dequantize, {w, n.floats({columns}, 0.001, 0.004)}, QuantAttrs{convolved ? 0 : 1, 0, DType::F32});
        const ValueId y = convolved ? n.b.create(Conv, {a, b}, square(1, 1)) : n.b.matmul(a, b);
        n.check(n.b.unary(Relu, y), convolved ? FusedQConv : FusedQMatMul, std::string(cpu) + ", " + std::string(name(type)),
                1e-4, 1e-2);
      }
}

TEST_CASE("steps after an integer product run in its kernel") {
  for (bool convolved : {false, true})
    for (DType to : {DType::U8, DType::I8, DType::F32}) {
      Net n;
      const ValueId y = with_steps(n, convolved, to);
      n.check(y, convolved ? FusedQConv : FusedQMatMul, convolved ? "convolution" : "product");
    }
}

namespace {

// x times a quantized weight. x is rounded to 8 bits, or few rows of it are split into digits.
struct RoundedProduct {
  std::vector<int64_t> x;
  int64_t n, block;
  DType codes = DType::U4;
  std::vector<int64_t> zero = {0};  // dims; {0}: none
  DType zeros = DType::U8;
  bool trans_b = true, gated = false, ends = false;
  DType scales = DType::F32;
};

// `symbolic`: the sizes of x but its last one.
ValueId rounded_product(Net& net, const RoundedProduct& p, bool rounds, bool symbolic = false) {
  const int64_t k = p.x.back(), blocks = p.block ? k / p.block : 1, columns = p.gated ? 2 * p.n : p.n;
  const auto dims = [&](int64_t rows) { return p.trans_b ? std::vector{columns, rows} : std::vector{rows, columns}; };
  const auto declared = [&](int64_t last) {
    std::vector<Dim> sizes;
    for (size_t i = 0; symbolic && i + 1 < p.x.size(); ++i) sizes.push_back(net.m->dims.symbol("rows" + std::to_string(i)));
    if (symbolic) sizes.emplace_back(last);
    return sizes;
  };
  std::vector<ValueId> operands = {net.floats(p.x, -1, 1, false, DType::F32, declared(k)), net.bits_of(p.codes, dims(k)),
                                   net.floats(dims(blocks), 0.01, 0.05, true, p.scales),
                                   p.zero == std::vector<int64_t>{0} ? ValueId() : net.bits_of(p.zeros, p.zero)};
  if (p.ends) operands.push_back(net.floats({columns}, -1, 1));
  if (p.ends && !p.gated) {
    std::vector<int64_t> y = p.x;
    y.back() = p.n;
    operands.push_back(net.floats(y, -1, 1, false, DType::F32, declared(p.n)));
  }
  return net.b.create(OpKind::DequantMatMul, operands,
                      DequantMatMulAttrs{.trans_b = p.trans_b, .block = p.block, .act = {}, .gated = p.gated, .int8_x = rounds});
}

const RoundedProduct kRounded[] = {
    {{1, 128}, 64, 32},
    {{1, 64}, 100, 32, DType::U4, {1, 1}},
    {{2, 64}, 96, 16, DType::U4, {96, 4}},
    {{3, 256}, 40, 0, DType::I8},
    {{1, 96}, 64, 16, DType::U2, {64, 6}, DType::U2},
    {{5, 320}, 77, 32, DType::U4, {77, 10}, DType::U4},
    {{7, 1024}, 64, 32, DType::I4},
    {{11, 544}, 64, 32, DType::U4, {1, 1}},
    {{200, 64}, 70, 32, DType::U8, {70, 2}},
    {{2, 9, 128}, 48, 64, DType::I8, {48, 2}, DType::I8, true, false, true},
    {{9, 128}, 48, 64, DType::I4, {2, 48}, DType::I4, false, false, true},
    {{1, 64}, 48, 32, DType::U4, {1, 1}, DType::U8, true, true, true},
    {{10, 64}, 32, 32, DType::I4, {0}, DType::U8, true, true},
    {{4, 640}, 16, 640, DType::I4},
    {{4, 60}, 24, 20, DType::U4, {24, 3}},  // a word has no integral number of blocks
    {.x = {1, 128}, .n = 70, .block = 32, .codes = DType::I4, .scales = DType::F16},
    {.x = {9, 128}, .n = 48, .block = 64, .zero = {96, 2}, .zeros = DType::I8, .gated = true, .scales = DType::F16},
};

}  // namespace

TEST_CASE("rounded rows, and rows of floats, times quantized weights agree with the evaluator") {
  const auto check = [](const RoundedProduct& p, bool rounds, std::string_view cpu, bool symbolic) {
    Net net;
    net.cpu = cpu;
    const ValueId y = rounded_product(net, p, rounds, symbolic);
    net.check(y, OpKind::DequantMatMul, std::to_string(p.x.back()) + " terms, " + std::to_string(p.n) + " columns", 1e-4, 1e-4);
  };
  for (const RoundedProduct& p : kRounded) {
    check(p, true, "generic", false);
    for (const char* cpu : {"generic", "zen4", "neoverse-n1"}) check(p, false, cpu, false);
    for (const char* cpu : {"generic", "haswell", "zen4"}) check(p, false, cpu, true);
  }
}

TEST_CASE("the result of a row does not depend on the number of rows where a dot product is one instruction") {
  constexpr int64_t kRows = 6, kTerms = 512, kColumns = 48;
  Net net;
  const ValueId y = rounded_product(net, {{kRows, kTerms}, kColumns, 32}, false, true);
  net.m->main().add_output(y, {});
  std::vector<double> x(kRows * kTerms);  // the last digit of many blocks counts
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((i % 32 == 5 ? 1e4 : 1) * (0.1 + static_cast<double>(i * 37 % 101)));
  Diagnostics d;
  LoadedModel model;
  net.m->name = ForeignText("dots");
  model.module = std::move(net.m);
  CompileOptions options;
  options.cpu = "zen4";
  const auto compiled = compile(std::move(model), "cpu", options, {}, d);
  REQUIRE_MESSAGE(compiled.has_value(), d.text());
  const auto runner = make_kernel_runner(compiled->lir, d, {}, compiled->lowerings.get());
  REQUIRE_MESSAGE(runner, d.text());
  const auto rows = [&](int64_t first, int64_t count) {
    const std::vector<double> part(x.begin() + first * kTerms, x.begin() + (first + count) * kTerms);
    const auto results = runner->run({eval::tensor_of(DType::F32, {count, kTerms}, part)}, d);
    REQUIRE_MESSAGE(results.has_value(), d.text());
    return eval::numbers((*results)[0]);
  };
  std::vector<double> one_by_one;
  for (int64_t r = 0; r < kRows; ++r)
    for (double v : rows(r, 1)) one_by_one.push_back(v);
  CHECK(rows(0, kRows) == one_by_one);
}

TEST_CASE("a row of floats times a quantized weight keeps values beside outliers whose weight is 0") {
  constexpr int64_t kTerms = 320, kColumns = 48, kBlock = 32;
  for (const double outlier : {1e2, 1e3, 1e4, 1e5})
    for (const auto& [t, count] : {std::pair(DType::I4, 1), {DType::I8, 1}, {DType::I4, 5}, {DType::I8, 5}}) {
      Net net;
      net.cpu = count > 1 ? "zen4" : "generic";
      std::vector<double> x(static_cast<size_t>(count * kTerms)), w(kColumns * kTerms);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = i % kBlock == 7 ? outlier : static_cast<float>(0.1 + 0.01 * static_cast<double>(i * 37 % 64));
      for (size_t i = 0; i < w.size(); ++i) w[i] = i % kBlock == 7 ? 0 : static_cast<double>(i * 89 % 251 % 8);
      const ValueId rows = net.value(eval::tensor_of(DType::F32, {count, kTerms}, x).tensor, false);
      const ValueId codes = net.value(eval::tensor_of(t, {kColumns, kTerms}, w).tensor, true);
      const ValueId scale = net.floats({kColumns, kTerms / kBlock}, 0.01, 0.05);
      net.check(net.b.create(OpKind::DequantMatMul, {rows, codes, scale},
                             DequantMatMulAttrs{.trans_b = true, .block = kBlock, .act = {}}),
                OpKind::DequantMatMul, "an outlier of " + std::to_string(outlier), 1e-4, 1e-5);
    }
}

namespace {

struct Units {
  size_t kernels = 0, matrix = 0;  // with dot products or a matrix unit; with the latter
};

// Compares the kernels of a model for a target, emulated or interpreted, with the evaluator, and counts those that use units.
Units units_on(const std::string& target, Net& n, const std::vector<ValueId>& results, double rtol, double atol) {
  for (ValueId y : results) {
    REQUIRE(y.valid());
    n.m->main().add_output(y, {});
  }
  Diagnostics d;
  const auto expected = eval::evaluate(*n.m, n.inputs, d);
  REQUIRE_MESSAGE(expected.has_value(), d.text());
  LoadedModel model;
  n.m->name = ForeignText("dots");
  model.module = std::move(n.m);
  const auto compiled = compile(std::move(model), target, {}, {}, d);
  REQUIRE_MESSAGE(compiled.has_value(), d.text());
  const bool runs = target != "wgpu" || std::getenv("RLXC_WEBGPU");
  if (runs) n.compare(make_emulated_runner(compiled->lir, target, d, {}, compiled->lowerings.get()), *expected, d, rtol, atol);
  if (target == "cuda" || !runs)
    n.compare(make_interpreting_runner(compiled->lir, target, d, 0, compiled->lowerings.get()), *expected, d, rtol, atol);
  const auto package = codegen::make_package(compiled->lir, "dots", *capability(find_backend(target)->info), d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  Units units;
  for (const kernel::Kernel& k : package->kernels) {
    const bool dots = std::ranges::any_of(k.exprs, [](const kernel::ExprNode& e) { return e.op == kernel::ExprOp::Dot; });
    units.kernels += dots || !k.units.empty();
    units.matrix += !k.units.empty();
  }
  return units;
}

}  // namespace

TEST_CASE("integer products and convolutions run on the dot units of grids") {
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net n;
    std::vector<ValueId> results;
    for (const Product& p : kProducts) results.push_back(product(n, p));
    for (const Window& w : kWindows) results.push_back(convolution(n, w));
    for (bool convolved : {false, true})
      for (DType to : {DType::U8, DType::I8, DType::F32}) results.push_back(with_steps(n, convolved, to));
    // All but a depthwise convolution; two may share a kernel.
    const Units units = units_on(target, n, results, 0, 0);
    CHECK(units.kernels >= std::size(kProducts) + std::size(kWindows) - 2);
    CHECK((units.matrix > 10) == (target == "cuda" || target == "rocm"));
  }
}

namespace {

struct F8Product {
  std::vector<int64_t> a, b;
  DType t = DType::F8E4M3FN;
  bool by_column = true, weight = true, nan = false;
};

// gelu(dequantize(x) @ dequantize(w) + bias), of which some are plain products.
ValueId product_of_f8(Net& n, const F8Product& p) {
  const auto f8 = [&](const std::vector<int64_t>& dims, bool weight) {
    std::vector<double> v(static_cast<size_t>(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>())));
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = std::ldexp(static_cast<double>(i * 89 % 31) - 15, static_cast<int>(i * 7 % 9) - 6);
    if (p.nan) v[v.size() / 2] = NAN;
    return n.value(eval::tensor_of(p.t, dims, v).tensor, weight);
  };
  const auto scaled = [&](ValueId q, std::vector<int64_t> scales, int64_t axis) {
    return n.b.create(Dequantize, {q, n.floats(scales, 0.01, 0.05)}, QuantAttrs{.axis = axis, .to = DType::F32});
  };
  const std::vector<int64_t> columns = {p.b.back()};
  const ValueId x = scaled(f8(p.a, false), {}, 0),
                w = scaled(f8(p.b, p.weight), p.by_column ? columns : std::vector<int64_t>(), 1);
  const ValueId y = n.b.matmul(x, w);
  return p.a.back() % 2 ? y : n.b.unary(Gelu, n.b.add(y, n.floats(columns, -1, 1)));
}

constexpr DType kE5M2 = DType::F8E5M2;
const F8Product kF8Products[] = {{{1, 67}, {67, 37}},
                                 {{1, 64}, {64, 48}, kE5M2, false},
                                 {{33, 64}, {64, 48}, DType::F8E4M3FN, true, false},
                                 {{33, 64}, {64, 48}, kE5M2},
                                 {{2, 9, 96}, {96, 40}},
                                 {{70, 67}, {67, 65}, kE5M2, false, false},
                                 {{130, 128}, {128, 160}},
                                 {{5, 48}, {48, 6}, kE5M2},
                                 {{20, 32}, {32, 24}, DType::F8E4M3FN, true, true, true},
                                 {{20, 32}, {32, 24}, kE5M2, true, true, true}};

}  // namespace

TEST_CASE("products of 8-bit floats run on the units of cuda") {
  for (const std::string target : {"cuda", "rocm"}) {
    INFO(target);
    Net n;
    std::vector<ValueId> results;
    for (const F8Product& p : kF8Products) results.push_back(product_of_f8(n, p));
    const Units units = units_on(target, n, results, 1e-4, 1e-4);
    CHECK(units.kernels == (target == "cuda" ? std::size(kF8Products) : 0));
    CHECK(units.matrix == (target == "cuda" ? std::size(kF8Products) - 3 : 0));
  }
}

namespace {

// Queries, keys and values of three heads, computed from one value with scales, zero points and biases of their own, and their
// products. Keys are turned.
ValueId heads(Net& n) {
  Builder& b = n.b;
  const ValueId x = n.of(DType::U8, {2, 18, 48}), zero = n.of(DType::U8, {}, true);
  std::vector<ValueId> parts;
  for (int i = 0; i < 3; ++i) {
    const ValueId sums = b.create(QMatMul, {x, n.of(DType::I8, {48, 48}, true), zero});
    ValueId y = b.add(b.mul(b.cast(sums, DType::F32), n.floats({48}, 0.0001, 0.0003)), n.floats({48}, -9, 9));
    if (i < 2) y = b.mul(y, n.floats({}, 0.4, 0.4));
    y = b.create(Quantize, {y, n.floats({}, 0.1 + 0.05 * i, 1), n.of(DType::U8, {}, true)}, QuantAttrs{.to = DType::U8});
    parts.push_back(
        b.transpose(b.reshape(y, {2, 18, 3, 16}), i == 1 ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3}));
  }
  const ValueId scores = b.create(QMatMul, {parts[0], parts[1], zero, zero});
  return b.create(QMatMul, {b.cast(scores, DType::U8), parts[2], {}, zero});
}

}  // namespace

TEST_CASE("integer matmuls of one value are one, whose slices kernels read in place") {
  Net n;
  const ValueId y = heads(n);
  n.check(y, Narrow, "heads");
  for (const std::string target : {"cuda", "wgpu", "metal"}) {
    INFO(target);
    Net on_grid;
    const std::vector<ValueId> results = {heads(on_grid)};
    units_on(target, on_grid, results, 0, 0);
  }
}

TEST_CASE("rounded rows times quantized weights run on the dot units of grids") {
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net n;
    std::vector<ValueId> results;
    for (const RoundedProduct& p : kRounded) results.push_back(rounded_product(n, p, true));
    CHECK(units_on(target, n, results, 1e-4, 1e-4).kernels >= std::size(kRounded) - 1);  // the blocks of one are not whole words
  }
}

TEST_CASE("dynamic quantization takes the range of all elements") {
  struct Range {
    std::vector<int64_t> dims;
    double low, high;
  };
  for (const Range& r :
       {Range{{1}, 2, 3}, {{5, 7}, -1, 1}, {{130, 70}, -3, 2}, {{3, 4097}, 0.5, 2}, {{64, 300}, -2, -1}, {{2, 3}, 0, 0}}) {
    Net net;
    const ValueId operands[] = {net.floats(r.dims, r.low, r.high, false)};
    Graph& g = net.m->main();
    const NodeId n = net.b.create_node(OpKind::DynamicQuantize, operands, NoAttrs{});
    REQUIRE(n.valid());
    g.add_output(g.result(n, 0), {});
    g.add_output(g.result(n, 1), {});
    net.check(g.result(n, 2), OpKind::DynamicQuantize, std::to_string(r.dims[0]) + " rows");
  }
}

namespace {

struct Attended {
  int64_t queries, keys, width, values;
  DType codes = DType::U8, probabilities = DType::U8, to = DType::F32;
  bool heads_inside = false;  // heads are parts of rows, as projections write them
  bool shared = false;        // two heads of queries read one of keys and values
  bool symbolic = false;      // the numbers of queries and keys are symbols
};

// softmax(q * k * scale + mask), rounded, times v, for 2 heads, or for 4 of queries.
ValueId attended(Net& n, const Attended& a) {
  const auto size = [&](int64_t rows) {
    if (!a.symbolic) return Dim(rows);
    return n.m->dims.symbol((rows == a.queries ? "queries" : "keys") + std::to_string(a.queries));
  };
  const auto heads = [&](int64_t rows, int64_t width, int64_t count = 2) {
    if (!a.heads_inside) return n.of(a.codes, {1, count, rows, width}, {Dim(1), Dim(count), size(rows), Dim(width)});
    const ValueId x = n.b.reshape(n.of(a.codes, {1, rows, count * width}, {Dim(1), size(rows), Dim(count * width)}),
                                  {Dim(1), size(rows), Dim(count), Dim(width)});
    return n.b.transpose(x, {0, 2, 1, 3});
  };
  const auto of_keys = [&](int64_t width) {
    const ValueId x = heads(a.keys, width);
    if (!a.shared) return x;
    const ValueId wide = n.b.expand(n.b.reshape(x, {Dim(1), Dim(2), Dim(1), size(a.keys), Dim(width)}),
                                    {Dim(1), Dim(2), Dim(2), size(a.keys), Dim(width)});
    return n.b.reshape(wide, {Dim(1), Dim(4), size(a.keys), Dim(width)});
  };
  const auto zero = [&](DType t) { return n.of(t, {}, true); };
  const auto scaled = [&](ValueId sums, double scale) {
    return n.b.mul(n.b.cast(sums, DType::F32), n.b.scalar(DType::F32, scale));
  };
  const ValueId q = heads(a.queries, a.width, a.shared ? 4 : 2), k = n.b.transpose(of_keys(a.width), {0, 1, 3, 2}),
                v = of_keys(a.values);
  const ValueId products = n.b.create(QMatMul, {q, k, zero(a.codes), zero(a.codes)});
  const ValueId mask = n.floats({1, 1, 1, a.keys}, -2, 0, false, DType::F32, {Dim(1), Dim(1), Dim(1), size(a.keys)});
  const ValueId scores = n.b.add(scaled(products, 0x1p-16), mask);
  const ValueId p = n.b.create(Quantize, {n.b.create(Softmax, {scores}, AxisAttrs{3}), n.b.scalar(DType::F32, 0x1p-7)},
                               QuantAttrs{.to = a.probabilities});
  const ValueId y = scaled(n.b.create(QMatMul, {p, v, ValueId(), zero(a.codes)}), 0x1p-8);
  return a.to == DType::F32 ? y : n.b.create(Quantize, {y, n.b.scalar(DType::F32, 2), zero(a.to)}, QuantAttrs{.to = a.to});
}

const Attended kAttended[] = {Attended{5, 9, 7, 3},
                              {1, 40, 16, 33},
                              {70, 100, 64, 64, DType::U8, DType::U8, DType::U8, true},
                              {50, 64, 32, 64, DType::I8, DType::I8, DType::I8, true},
                              {33, 21, 8, 16, DType::I8},
                              {9, 20, 16, 16, DType::U8, DType::U8, DType::U8, true, true},
                              {70, 33, 24, 40, DType::I8, DType::U8, DType::F32, false, true},
                              {1, 40, 16, 33, DType::U8, DType::U8, DType::F32, false, false, true},
                              {61, 75, 16, 32, DType::I8, DType::I8, DType::I8, true, false, true},
                              {50, 7, 16, 32, DType::U8, DType::U8, DType::U8, true, true, true}};

}  // namespace

// The probabilities that lie between two integers may be rounded to either, which changes a sum by one value.
TEST_CASE("integer products of an attention run in one kernel") {
  for (const Attended& a : kAttended) {
    Net n;
    const ValueId y = attended(n, a);
    n.check(y, QAttention, std::to_string(a.queries) + " queries", 0, 1);
  }
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net n;
    std::vector<ValueId> results;
    for (const Attended& a : kAttended) results.push_back(attended(n, a));
    CHECK(units_on(target, n, results, 0, 1).kernels == std::size(kAttended));
  }
}

namespace {

struct TwoSums {
  int64_t m, k, n;
  DType left = DType::U8, right = DType::I8;
  std::vector<int64_t> b_zero = {0};  // {0}: none
};

// Codes and floats of relu(first sum * scales) * second sum * scale.
std::vector<ValueId> gated(Net& n, const TwoSums& p) {
  constexpr uint16_t kAbsent = RegionStep::kNone, kStep = RegionStep::kStep;
  const ValueId zero = p.b_zero == std::vector<int64_t>{0} ? ValueId() : n.of(p.right, p.b_zero, true);
  const ValueId operands[] = {n.of(p.left, {p.m, p.k}),        n.of(p.right, {p.k, 2 * p.n}, true), n.of(p.left, {}, true), zero,
                              n.floats({p.n}, 0x1p-9, 0x1p-8), n.b.scalar(DType::F32, 0x1p-10)};
  const RegionStep sums{QMatMul, DType::I32, {kAbsent, kAbsent, kAbsent}};
  const std::vector<RegionStep> steps = {sums,
                                         sums,
                                         {Cast, DType::F32, {kStep, kAbsent, kAbsent}},
                                         {Mul, DType::F32, {kStep | 2, 4, kAbsent}},
                                         {Relu, DType::F32, {kStep | 3, kAbsent, kAbsent}},
                                         {Cast, DType::F32, {kStep | 1, kAbsent, kAbsent}},
                                         {Mul, DType::F32, {kStep | 5, 5, kAbsent}},
                                         {Mul, DType::F32, {kStep | 4, kStep | 6, kAbsent}},
                                         {Round, DType::F32, {kStep | 7, kAbsent, kAbsent}},
                                         {Clamp, DType::F32, {kStep | 8, kAbsent, kAbsent}, ClampAttrs{-128, 127}},
                                         {Cast, DType::I8, {kStep | 9, kAbsent, kAbsent}}};
  const NodeId y = n.b.create_node(FusedQMatMul, operands, FusionAttrs{steps, {7}});
  REQUIRE(y.valid());
  return {n.m->main().result(y, 0), n.m->main().result(y, 1)};
}

const TwoSums kTwoSums[] = {{1, 16, 16},
                            {5, 67, 37},
                            {13, 64, 64, DType::I8, DType::I8, {}},
                            {50, 36, 81, DType::U8, DType::U8, {162}},
                            {130, 64, 70, DType::I8, DType::U8, {140}},
                            {33, 9, 3, DType::U8, DType::I8, {}},
                            {400, 32, 48}};

}  // namespace

TEST_CASE("two sums of an integer product, and two results") {
  for (const TwoSums& p : kTwoSums) {
    for (const char* cpu : {"generic", "haswell", "zen4", "neoverse-v1"}) {
      Net n;
      n.cpu = cpu;
      const std::vector<ValueId> y = gated(n, p);
      n.m->main().add_output(y[1], {});
      n.check(y[0], FusedQMatMul, std::string(cpu) + ", " + std::to_string(p.n) + " columns");
    }
  }
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net n;
    std::vector<ValueId> results;
    for (const TwoSums& p : kTwoSums) std::ranges::copy(gated(n, p), std::back_inserter(results));
    CHECK(units_on(target, n, results, 0, 0).kernels >= std::size(kTwoSums));
  }
}

namespace {

// The sum of a product or convolution is added to that of a second one, which reads it as codes.
ValueId residual(Net& n, const Window* w, const Product* p) {
  const auto block = [&](ValueId x, ValueId weight, std::vector<int64_t> columns, double low) {
    const ValueId operands[] = {x, weight, n.b.scalar(DType::U8, 3)};
    const ValueId sums = w ? n.b.create(QConv, operands, w->attrs) : n.b.create(QMatMul, operands, NoAttrs{});
    return n.b.mul(n.b.cast(sums, DType::F32), n.floats(columns, low, 2 * low));
  };
  const auto dims = w ? w->w : p->b;
  const std::vector<int64_t> columns = w ? std::vector<int64_t>{dims[0], 1, 1} : std::vector<int64_t>{dims[1]};
  const ValueId y = block(n.of(DType::U8, w ? w->x : p->a), n.of(DType::I8, dims, true), columns, 0x1p-9);
  const ValueId codes =
      n.b.create(Quantize, {y, n.b.scalar(DType::F32, 2), n.b.scalar(DType::U8, 3)}, QuantAttrs{.to = DType::U8});
  std::vector<int64_t> square_dims = dims;
  square_dims[w ? 1 : 0] = dims[w ? 0 : 1];
  return n.b.unary(Relu, n.b.add(y, block(codes, n.of(DType::I8, square_dims, true), columns, 0x1p-10)));
}

}  // namespace

TEST_CASE("results of integer products and convolutions that are read as floats and as codes") {
  const Product products[] = {{{5, 67}, {67, 37}}, {{128, 64}, {64, 70}}, {{3, 9, 21}, {21, 33}}};
  for (const Product& p : products) {
    Net n;
    n.check(residual(n, nullptr, &p), FusedQMatMul, std::to_string(p.a.back()) + " terms");
  }
  const Window windows[] = {{{1, 8, 9, 9}, {20, 8, 3, 3}, square(1, 1)},
                            {{1, 16, 10, 10}, {32, 16, 1, 1}, square(1, 0)},
                            {{2, 16, 12, 12}, {64, 16, 3, 3}, square(1, 1)},
                            {{1, 5, 30}, {6, 5, 3}, {{1}, {1}, {1}, {1}, {}, 1}}};
  for (const Window& w : windows)
    for (const char* cpu : {"generic", "haswell", "zen4", "neoverse-v1"}) {
      Net n;
      n.cpu = cpu;
      n.check(residual(n, &w, nullptr), FusedQConv, std::string(cpu) + ", " + std::to_string(w.w[0]) + " channels");
    }
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net n;
    std::vector<ValueId> results;
    for (const Product& p : products) results.push_back(residual(n, nullptr, &p));
    for (const Window& w : windows) results.push_back(residual(n, &w, nullptr));
    CHECK(units_on(target, n, results, 0, 0).kernels >= 2 * std::size(products));
  }
}

TEST_CASE("grids read codes that are transposed where they lie") {
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net n;
    std::vector<ValueId> results;
    for (const auto& [x, columns] : {std::pair(std::vector<int64_t>{2, 128, 16}, int64_t{20}),
                                     {{64, 40}, 64},
                                     {{3, 18, 70}, 130},
                                     {{33, 200}, 70},
                                     {{2, 8, 1}, 9},
                                     {{1, 256, 512}, 256}}) {
      const ValueId rows =
          n.b.transpose(n.of(DType::U8, x), x.size() == 2 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 2, 1});
      results.push_back(n.b.create(QMatMul, {rows, n.of(DType::I8, {x.end()[-2], columns}, true), n.of(DType::U8, {}, true)}));
    }
    const ValueId image = n.b.transpose(n.of(DType::U8, {2, 9, 7, 8}), {0, 3, 1, 2});
    const ValueId sums =
        n.b.create(QConv, {image, n.of(DType::I8, {8, 1, 3, 3}, true), n.of(DType::U8, {}, true)}, square(1, 1, 1, 8));
    results.push_back(n.b.mul(n.b.cast(sums, DType::F32), n.floats({8, 1, 1}, 0x1p-9, 0x1p-8)));
    units_on(target, n, results, 0, 0);
  }
}

TEST_CASE("grids quantize rows and images of single channels where they read them") {
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net n;
    std::vector<ValueId> results;
    const auto rounded = [&](const std::vector<int64_t>& dims, DType to) {
      const ValueId zero = n.value(eval::tensor_of(to, {}, {7}).tensor, true);
      const ValueId x =
          n.b.create(Quantize, {n.floats(dims, -40, 40, false), n.b.scalar(DType::F32, 0.25), zero}, QuantAttrs{.to = to});
      return std::pair(x, zero);
    };
    for (const auto& [x, columns] :
         {std::pair(std::vector<int64_t>{5, 64}, int64_t{20}), {{1, 67}, 37}, {{2, 9, 67}, 37}, {{70, 128}, 66}, {{1, 96}, 8}})
      for (DType to : {DType::U8, DType::I8}) {
        const auto [codes, zero] = rounded(x, to);
        results.push_back(n.b.create(QMatMul, {codes, n.of(DType::I8, {x.back(), columns}, true), zero}));
      }
    const auto [codes, zero] = rounded({1, 8, 9, 7}, DType::U8);
    results.push_back(n.b.create(QConv, {codes, n.of(DType::I8, {8, 1, 3, 3}, true), zero}, square(1, 1, 1, 8)));
    units_on(target, n, results, 0, 0);
  }
}

// Results between two integers may be rounded to either.
TEST_CASE("attention, rotations, interpolations and softmaxes of inner axes give codes on grids") {
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net n;
    const auto rounded = [&](ValueId v, DType to) {
      return n.b.create(Quantize, {v, n.b.scalar(DType::F32, 0.01), n.b.scalar(to, 3)}, QuantAttrs{.to = to});
    };
    std::vector<ValueId> results;
    for (const int64_t queries : {3, 70})
      for (const int64_t width : {20, 64}) {
        const auto heads = [&](int64_t rows) { return n.floats({1, rows, 2 * width}, -1, 1, false); };
        const AttentionAttrs a{
            .num_heads = 2, .num_kv_heads = 2, .layout = AttentionLayout::Packed, .out_layout = AttentionLayout::Packed};
        results.push_back(rounded(n.b.create(Attention, {heads(queries), heads(80), heads(80)}, a), DType::U8));
      }
    for (const int64_t n_rot : {0, 4}) {
      const int64_t half = n_rot ? n_rot / 2 : 4;
      const ValueId y =
          n.b.create(Rope, {n.floats({1, 2, 5, 8}, -1, 1, false), n.floats({5, half}, -1, 1), n.floats({5, half}, -1, 1)},
                     RopeAttrs{.n_rot = n_rot, .layout = AttentionLayout::BHSD});
      results.push_back(rounded(y, DType::I8));
    }
    const auto image = [&] { return n.floats({1, 3, 5, 7}, -1, 1, false); };
    for (const ResizeMode mode : {ResizeMode::Linear, ResizeMode::Cubic})
      results.push_back(rounded(n.b.create(Resize, {image()}, ResizeAttrs{{1, 3, 11, 4}, {}, {}, mode}), DType::U8));
    results.push_back(rounded(n.b.create(Softmax, {image()}, AxisAttrs{1}), DType::I8));
    units_on(target, n, results, 0, 1);
  }
}
