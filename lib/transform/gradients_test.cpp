// Each rule against central differences of the reference evaluator, in f64.
#include "transform/gradients.h"

#include <algorithm>
#include <cmath>

#include "support/rule_samples.h"
#include "transform/rules.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// The module of one node; outputs: its result, and the gradients of sum(seed * result) by the operands that are f64.
struct Differentiated {
  Module m;
  std::vector<size_t> by;  // operand of each gradient
  explicit Differentiated(const Sample& s, const HostValue& seed) {
    Diagnostics d;
    Builder b(m.main(), &d);
    std::vector<ValueId> operands, wrt;
    for (const HostValue& v : s.in) {
      operands.push_back(b.input("x" + std::to_string(operands.size()), eval::type_of(v)));
      if (v.tensor.dtype == DType::F64) wrt.push_back(operands.back()), by.push_back(operands.size() - 1);
    }
    const NodeId n = b.create_node(s.op, operands, s.attrs);
    REQUIRE_MESSAGE(n.valid(), d.text());
    const ValueId y = m.main().result(n, s.result);
    const auto g = transform::gradients(b, y, b.constant(seed.tensor), wrt, {}, d);
    REQUIRE_MESSAGE(g, d.text());
    std::vector<ValueId> outputs{y};
    outputs.insert(outputs.end(), g->begin(), g->end());
    m.main().set_outputs(outputs);
  }
};

double weighted(const HostValue& y, const HostValue& weight) {
  const auto a = numbers(y), w = numbers(weight);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * w[i];
  return sum;
}

void check(const Sample& s) {
  INFO(std::string(name(s.op)));
  std::string message;
  const HostValue y = run_op(s.op, s.attrs, s.in, &message)[s.result];
  REQUIRE_MESSAGE(message.empty(), message);
  const HostValue seed = reals(y.tensor.dims, 99);
  const Differentiated d(s, seed);
  Diagnostics diagnostics;
  const auto r = eval::evaluate(d.m, s.in, diagnostics);
  REQUIRE_MESSAGE(r, diagnostics.text());
  for (size_t k = 0; k < d.by.size(); ++k) {
    const size_t operand = d.by[k];
    const auto got = numbers((*r)[k + 1]);
    auto in = s.in;
    std::vector<double> x = numbers(in[operand]);
    REQUIRE(got.size() == x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double kept = x[i], step = 1e-5;
      double difference = 0;
      for (double side : {1.0, -1.0}) {
        x[i] = kept + side * step;
        in[operand] = tensor_of(DType::F64, s.in[operand].tensor.dims, x);
        difference += side * weighted(run_op(s.op, s.attrs, in)[s.result], seed) / (2 * step);
      }
      x[i] = kept;
      CHECK_MESSAGE(std::abs(got[i] - difference) <= 1e-6 * (1 + std::abs(difference)), "operand ", operand, " element ", i, ": ",
                    got[i], " and ", difference);
    }
  }
}

}  // namespace

TEST_CASE("every rule agrees with differences, and every rule is tried") {
  std::vector<bool> tried(kOpCount);
  for (const Sample& s : samples()) tried[static_cast<size_t>(s.op)] = true, check(s);
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (op == OpKind::Round || op == OpKind::ArgReduce) continue;  // 1 and nothing, by decision
    const bool cell = op == OpKind::Lstm || op == OpKind::Gru || op == OpKind::Rnn;
    // In tests of their own.
    if (op == OpKind::Attention || cell || has_trait(op, kBody) || op == OpKind::Quantize || op == OpKind::Dequantize) continue;
    if (op == OpKind::FakeQuantize) continue;
    if (op == OpKind::QMatMul || op == OpKind::QConv) continue;
    CHECK_MESSAGE(tried[static_cast<size_t>(k)] == (transform::find_rule(op) || transform::has_slope(op)), std::string(name(op)));
  }
}

TEST_CASE("gradients of attention") {
  const auto bhsd = [](uint64_t seed, int64_t heads, int64_t length, int64_t width) {
    return reals({2, heads, length, width}, seed);
  };
  const HostValue q = bhsd(1, 4, 3, 2), k = bhsd(2, 2, 5, 2), v = bhsd(3, 2, 5, 3);
  AttentionAttrs a;
  a.num_heads = 4, a.num_kv_heads = 2;
  for (MaskKind kind : {MaskKind::None, MaskKind::Causal, MaskKind::SlidingWindow}) {
    a.mask = kind, a.window = 1, a.softcap = kind == MaskKind::Causal ? 0.7 : 0, a.scale = kind == MaskKind::None ? 0 : 1.3;
    check({OpKind::Attention, a, {q, k, v}});
  }
  a.mask = MaskKind::Bias, a.softcap = 0.5;
  check({OpKind::Attention, a, {q, k, v, reals({1, 4, 3, 5}, 4)}});
  check({OpKind::Attention, a, {q, k, v, reals({3, 5}, 5)}});
  a.mask = MaskKind::Custom;
  const HostValue seen =
      bools({2, 1, 3, 5}, {1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1});
  for (bool finite : {false, true}) {  // a row that sees nothing: zeros, or the mean
    a.finite_mask = finite;
    check({OpKind::Attention, a, {q, k, v, seen}});
  }
  a = {};
  a.num_heads = a.num_kv_heads = 2, a.layout = a.out_layout = AttentionLayout::Packed, a.mask = MaskKind::Causal;
  check({OpKind::Attention, a, {reals({1, 3, 4}, 6), reals({1, 3, 4}, 7), reals({1, 3, 6}, 8)}});
  a.layout = AttentionLayout::BSHD;
  check({OpKind::Attention, a, {reals({1, 3, 2, 2}, 9), reals({1, 3, 2, 2}, 10), reals({1, 3, 2, 3}, 11)}});
  AttentionAttrs rows;  // many queries are taken in blocks
  rows.num_heads = 2, rows.num_kv_heads = 1, rows.mask = MaskKind::SlidingWindow, rows.window = 90, rows.softcap = 0.8;
  check({OpKind::Attention, rows, {reals({1, 2, 128, 2}, 15), reals({1, 1, 130, 2}, 16), reals({1, 1, 130, 1}, 17)}});
  rows.mask = MaskKind::Custom;
  const std::vector<double> half = [] {
    std::vector<double> out;
    for (int64_t i = 0; i < 128 * 3; ++i) out.push_back(i % 5 < 3 ? 1 : 0);
    return out;
  }();
  check({OpKind::Attention,
         rows,
         {reals({1, 2, 128, 2}, 18), reals({1, 1, 3, 2}, 19), reals({1, 1, 3, 1}, 20), bools({128, 3}, half)}});
  a.layout = a.out_layout = AttentionLayout::BHSD, a.k_transposed = true;
  check({OpKind::Attention, a, {reals({1, 2, 3, 2}, 12), reals({1, 2, 2, 3}, 13), reals({1, 2, 3, 3}, 14)}});
}

TEST_CASE("gradients of a graph: shared values, unreached values, independent values") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const Type t = tensor_type(DType::F64, {Dim(2)});
  const ValueId x = b.input("x", t), z = b.input("z", t), apart = b.input("apart", t);
  const ValueId square = b.mul(x, x), y = b.add(b.mul(square, z), b.mul(square, x));  // x^2 z + x^3
  const auto g = transform::gradients(b, y, {}, std::array{x, apart}, {}, d);
  const auto held = transform::gradients(b, y, {}, std::array{x}, std::array{square}, d);  // x^2 is a constant
  const ValueId moved = transform::substitute(b, y, std::array{x}, std::array{z}, d);      // 2 z^3
  REQUIRE_MESSAGE(g, d.text());
  REQUIRE_MESSAGE(held, d.text());
  m.main().set_outputs(std::array{(*g)[0], (*g)[1], (*held)[0], moved});
  const auto r = eval::evaluate(
      m, std::array{tensor_of(DType::F64, {2}, {3, -1}), tensor_of(DType::F64, {2}, {5, 2}), tensor_of(DType::F64, {2}, {0, 0})},
      d);
  REQUIRE_MESSAGE(r, d.text());
  CHECK(numbers((*r)[0]) == std::vector<double>{2 * 3 * 5 + 3 * 9, 2 * -1 * 2 + 3});
  CHECK(numbers((*r)[1]) == std::vector<double>{0, 0});
  CHECK(numbers((*r)[2]) == std::vector<double>{9, 1});
  CHECK(numbers((*r)[3]) == std::vector<double>{250, 16});
  CHECK(transform::depends_on(m.main(), y, square));
  CHECK_FALSE(transform::depends_on(m.main(), y, apart));
}

TEST_CASE("the gradient of a convolution by its input is a convolution, with strides and for symbolic batches, too") {
  for (const int64_t stride : {1, 2, 3})
    for (const int64_t kernel : {1, 3}) {
      Module m;
      Diagnostics d;
      Builder b(m.main(), &d);
      const ValueId x = b.input("x", tensor_type(DType::F64, {m.dims.symbol("n"), Dim(2), Dim(7), Dim(8)}));
      const ValueId w = b.constant(reals({4, 2, kernel, kernel}, 1).tensor);
      const ConvAttrs a{{stride, stride}, {kernel / 2, 0}, {0, kernel / 2}, {1, 1}, {0, 0}, 1};
      const auto g = transform::gradients(b, b.create(OpKind::Conv, {x, w}, a), {}, std::array{x}, {}, d);
      REQUIRE_MESSAGE(g, d.text());
      for (NodeId n : m.main().nodes()) CHECK(m.main().op(n) != OpKind::ConvTranspose);
    }
}

TEST_CASE("operations without a rule are named, all of them") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", tensor_type(DType::F64, {Dim(2), Dim(2), Dim(2)}));
  b.set_node_name(m.symbol("first"));
  const ValueId first = b.create(OpKind::Cumprod, {x}, CumAttrs{1, false, false});
  b.set_node_name(m.symbol("second"));
  const ValueId y = b.create(OpKind::Cumprod, {first}, CumAttrs{0, false, false});
  CHECK_FALSE(transform::gradients(b, y, {}, std::array{x}, {}, d));
  CHECK(d.text().find("\"first\" (cumprod)") != std::string::npos);
  CHECK(d.text().find("\"second\" (cumprod)") != std::string::npos);
}

TEST_CASE("the derivative of tan uses tanh, that of the exact GELU the tanh form, and that of abs is -1 at 0") {
  const auto slope = [](OpKind op, double at) {
    const Sample s{op, default_attrs(op), {tensor_of(DType::F64, {1}, {at})}};
    const Differentiated d(s, tensor_of(DType::F64, {1}, {1.0}));
    Diagnostics diagnostics;
    const auto r = eval::evaluate(d.m, s.in, diagnostics);
    REQUIRE_MESSAGE(r, diagnostics.text());
    return numbers((*r)[1])[0];
  };
  CHECK(slope(OpKind::Tan, 0.5) == doctest::Approx(1 + std::tan(0.5) * std::tan(0.5)));
  const double density = std::exp(-0.5) / std::sqrt(2 * std::acos(-1.0)), below = 0.5 * (1 + std::erf(std::sqrt(0.5)));
  CHECK(slope(OpKind::Gelu, 1) == doctest::Approx(below + density).epsilon(1e-9));
  CHECK(slope(OpKind::Abs, 0) == 0);
}

TEST_CASE("gradients pass straight through FakeQuantize, by the kind of its estimate") {
  const std::vector<double> x{0.5, -0.95, 0.26, 2, 0.1, -0.9};
  for (const StraightThroughKind ste : {StraightThroughKind::Identity, StraightThroughKind::ClippedIdentity,
                                        StraightThroughKind::HardTanh, StraightThroughKind::Tanh}) {
    const FakeQuantizeAttrs a{.bits = 4, .axis = 0, .mode = FakeQuantizeMode::Fixed, .ste = ste};
    const std::vector<double> scales{0.1, 0.4}, seed{1, 2, 3, 4, 5, 6};
    Module m;
    Builder b(m.main());
    const Type t = tensor_type(DType::F64, {2, 3});
    const ValueId v = b.input("x", t);
    const ValueId y = b.create(OpKind::FakeQuantize, {v, b.constant(make_data(DType::F64, {2}, scales))}, a);
    Diagnostics d;
    const ValueId wrt[] = {v};
    const auto g = transform::gradients(b, y, b.constant(make_data(DType::F64, {2, 3}, seed)), wrt, {}, d);
    REQUIRE_MESSAGE(g, d.text());
    const ValueId outputs[] = {y, (*g)[0]};
    m.main().set_outputs(outputs);
    const HostValue in[] = {tensor_of(DType::F64, {2, 3}, x)};
    const auto r = eval::evaluate(m, in, d);
    REQUIRE_MESSAGE(r, d.text());
    const auto rounded = numbers((*r)[0]), got = numbers((*r)[1]);
    for (size_t i = 0; i < x.size(); ++i) {
      const double s = scales[i / 3], limit = 7 * s, size = std::abs(x[i]);
      const double slope = ste == StraightThroughKind::Identity          ? 1
                           : ste == StraightThroughKind::ClippedIdentity ? size <= limit
                           : ste == StraightThroughKind::HardTanh        ? std::max(0.0, 1 - size / limit)
                                                                         : 1 - std::pow(std::tanh(x[i] / s), 2);
      CHECK(got[i] == doctest::Approx(seed[i] * slope));
      CHECK(rounded[i] == doctest::Approx(std::clamp(std::round(x[i] / s), -7.0, 7.0) * s));
    }
  }
}
