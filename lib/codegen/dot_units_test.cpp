// Integer matmuls and convolutions through the whole cpu pipeline: kernels with dot units must equal the reference evaluator bit
// for bit, including sums of two products that exceed 16 bits.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "driver/compile.h"
#include "ir/builder.h"
#include "runtime/interpret_package.h"
#include "runtime/run_kernels.h"
#include "support/eval.h"

using namespace rlxc;
using enum OpKind;

namespace {

// Quantized values, half of which are the minimum or maximum of their type.
TensorData codes(DType t, const std::vector<int64_t>& dims, uint32_t seed) {
  const double low = t == DType::I8 ? -128 : 0, high = low + 255;
  size_t count = 1;
  for (int64_t d : dims) count *= static_cast<size_t>(d);
  std::vector<double> v(count);
  uint32_t state = seed * 2654435761U + 1;
  for (double& x : v) {
    state = state * 1664525U + 1013904223U;
    const uint32_t u = state >> 8;
    x = u % 4 == 0 ? low : u % 4 == 1 ? high : low + (u >> 8) % 256;
  }
  return eval::tensor_of(t, dims, v).tensor;
}

struct Net {
  std::unique_ptr<Module> m = std::make_unique<Module>();
  Builder b{m->main()};
  std::vector<eval::HostValue> inputs;
  uint32_t seed = 1;

  ValueId value(TensorData d, bool weight) {
    const Type type = tensor_type(d.dtype, {d.dims.begin(), d.dims.end()});
    if (weight) return b.param("w" + std::to_string(seed++), type, m->data.add(std::move(d)));
    const ValueId x = b.input("x" + std::to_string(inputs.size()), type);
    inputs.push_back({TypeKind::Tensor, std::move(d), {}});
    return x;
  }
  ValueId of(DType t, const std::vector<int64_t>& dims, bool weight = false) { return value(codes(t, dims, seed++), weight); }
  ValueId floats(const std::vector<int64_t>& dims, double low, double high) {
    size_t count = 1;
    for (int64_t d : dims) count *= static_cast<size_t>(d);
    std::vector<double> v(count);
    for (size_t i = 0; i < count; ++i) v[i] = static_cast<float>(low + (high - low) * static_cast<double>(i * 7 % 13) / 13);
    return value(eval::tensor_of(DType::F32, dims, v).tensor, true);
  }

  // Returns the module's kernels for this target, in order.
  void check(ValueId y, OpKind expected_op, std::string_view what) {
    INFO(what);
    REQUIRE(y.valid());
    m->main().add_output(y, {});
    Diagnostics d;
    const auto expected = eval::evaluate(*m, inputs, d);
    REQUIRE_MESSAGE(expected.has_value(), d.text());
    LoadedModel model;
    m->name = ForeignText("dots");
    model.module = std::move(m);
    const auto compiled = compile(std::move(model), "cpu", {}, {}, d);
    REQUIRE_MESSAGE(compiled.has_value(), d.text());
    const Graph& g = compiled->lir.module->main();
    bool found = false;
    for (NodeId n : g.nodes()) found = found || g.op(n) == expected_op;
    CHECK_MESSAGE(found, name(expected_op));
    compare(make_kernel_runner(compiled->lir, d), *expected, d);
    compare(make_interpreting_runner(compiled->lir, "cpu", d), *expected, d);
  }

 private:
  void compare(std::unique_ptr<KernelRunner> runner, const std::vector<eval::HostValue>& expected, Diagnostics& d) const {
    REQUIRE_MESSAGE(runner, d.text());
    const auto actual = runner->run(inputs, d);
    REQUIRE_MESSAGE(actual.has_value(), d.text());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto r = eval::compare((*actual)[i], expected[i], 0, 0);
      CHECK_MESSAGE(r.pass, r.message);
    }
  }
};

struct Product {
  std::vector<int64_t> a, b;  // sizes
  DType left = DType::U8, right = DType::I8;
  std::vector<int64_t> a_zero = {}, b_zero = {};  // sizes; {0}: none
  bool weight = true;
};

ValueId product(Net& n, const Product& p) {
  const auto zero = [&](DType t, const std::vector<int64_t>& dims) {
    return dims == std::vector<int64_t>{0} ? ValueId() : n.of(t, dims, true);
  };
  return n.b.create(QMatMul, {n.of(p.left, p.a), n.of(p.right, p.b, p.weight), zero(p.left, p.a_zero), zero(p.right, p.b_zero)});
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

}  // namespace

TEST_CASE("integer products of awkward shapes and zero points are exact") {
  const std::vector<int64_t> none = {0};
  const Product products[] = {
      {{1, 16}, {16, 16}},
      {{1, 67}, {67, 37}},
      {{7, 13}, {13, 5}},
      {{5, 64}, {64, 64}, DType::I8, DType::I8},
      {{13, 66}, {66, 130}, DType::I8, DType::U8},
      {{50, 36}, {36, 81}, DType::U8, DType::U8, {}, {81}},
      {{50, 35}, {35, 64}, DType::U8, DType::I8, {50, 1}, {64}},
      {{128, 64}, {64, 70}, DType::U8, DType::U8, none, none},
      {{33, 64}, {64, 48}, DType::I8, DType::I8, {}, {}, false},
      {{3, 9, 21}, {21, 33}, DType::U8, DType::I8, {}, none},
      {{3, 9, 21}, {21, 33}, DType::U8, DType::I8, {9, 1}, none},
      {{2, 3, 9, 20}, {3, 20, 18}, DType::U8, DType::I8, {}, {}},
      {{800, 17}, {17, 20}, DType::U8, DType::U8, {}, {20}},
  };
  for (const Product& p : products) {
    Net n;
    const ValueId y = product(n, p);
    n.check(y, QMatMul, std::to_string(p.a.back()) + " terms");
  }
}

TEST_CASE("integer convolutions of awkward shapes and zero points are exact") {
  const Window windows[] = {
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
  for (const Window& w : windows) {
    Net n;
    const ValueId y = convolution(n, w);
    n.check(y, QConv, std::to_string(w.w[1]) + " channels");
  }
}

TEST_CASE("steps after an integer product run in its kernel") {
  for (bool convolved : {false, true})
    for (DType to : {DType::U8, DType::I8, DType::F32}) {
      Net n;
      const ValueId sums = convolved ? convolution(n, {{1, 8, 9, 9}, {20, 8, 3, 3}, square(1, 1)})
                                     : product(n, {{2, 21, 24}, {24, 75}, DType::U8, DType::I8, {}, {75}});
      const std::vector<int64_t> columns = convolved ? std::vector<int64_t>{20, 1, 1} : std::vector<int64_t>{75};
      const ValueId scaled = n.b.mul(n.b.cast(sums, DType::F32), n.floats(columns, 0x1p-9, 0x1p-7));
      const ValueId residual = n.of(DType::U8, convolved ? std::vector<int64_t>{1, 20, 9, 9} : std::vector<int64_t>{2, 21, 75});
      ValueId y = n.b.unary(Relu, n.b.add(scaled, n.b.cast(residual, DType::F32)));
      if (to != DType::F32)
        y = n.b.create(Quantize, {y, n.b.scalar(DType::F32, 2), n.value(eval::tensor_of(to, {}, {3}).tensor, true)},
                       QuantAttrs{0, 0, to});
      n.check(y, convolved ? FusedQConv : FusedQMatMul, convolved ? "convolution" : "product");
    }
}
