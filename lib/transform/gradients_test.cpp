// Each rule against central differences of the reference evaluator, in f64.
#include "transform/gradients.h"

#include <cmath>

#include "support/eval.h"
#include "support/random.h"
#include "transform/rules.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

struct Sample {
  OpKind op;
  Attrs attrs;
  std::vector<HostValue> in;
  size_t result = 0;
};

HostValue reals(std::vector<int64_t> dims, uint64_t seed, double low = -0.9, double high = 0.9) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  Random random(seed);
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(random.uniform(low, high));
  return tensor_of(DType::F64, std::move(dims), v);
}
HostValue bools(std::vector<int64_t> dims, const std::vector<double>& v) { return tensor_of(DType::Bool, std::move(dims), v); }

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

std::vector<Sample> samples() {
  const HostValue m = reals({2, 3, 4}, 1), row = reals({4}, 2), positive = reals({2, 3, 4}, 3, 0.3, 2),
                  image = reals({2, 4, 5, 6}, 4);
  const HostValue some = i64({2, 2}, {2, 0, 1, -1});
  ConvAttrs conv{{2, 1}, {1, 0}, {0, 1}, {1, 2}, {0, 0}, 2};
  PoolAttrs pool;
  pool.kernel = {2, 3}, pool.strides = {2, 1}, pool.pads_begin = {1, 0}, pool.pads_end = {0, 1}, pool.dilations = {1, 1};
  auto mean = pool, whole = pool, total = pool;
  mean.op = whole.op = ReduceOp::Mean, whole.count_include_pad = true, total.op = ReduceOp::Sum;
  ResizeAttrs twice;
  twice.sizes = {Dim(2), Dim(5)}, twice.scales = {1, 1.25};
  const PadAttrs pads{{Dim(0), Dim(1), Dim(2)}, {Dim(1), Dim(0), Dim(1)}, PadMode::Constant};
  auto reflect = pads, edge = pads, wrap = pads;
  reflect.mode = PadMode::Reflect, edge.mode = PadMode::Edge, wrap.mode = PadMode::Wrap;
  std::vector<Sample> all{
      {OpKind::Add, NoAttrs{}, {m, row}},
      {OpKind::Sub, NoAttrs{}, {row, m}},
      {OpKind::Mul, NoAttrs{}, {m, reals({3, 1}, 5)}},
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
      {OpKind::ConvTranspose, conv, {reals({2, 6, 3, 2}, 21), reals({6, 2, 3, 2}, 19), reals({4}, 20)}},
      {OpKind::Pool, pool, {image}},
      {OpKind::Pool, mean, {image}},
      {OpKind::Pool, whole, {image}},
      {OpKind::Pool, total, {image}},
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

}  // namespace

TEST_CASE("every rule agrees with differences, and every rule is tried") {
  std::vector<bool> tried(kOpCount);
  for (const Sample& s : samples()) tried[static_cast<size_t>(s.op)] = true, check(s);
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (op == OpKind::Round || op == OpKind::ArgReduce) continue;  // 1 and nothing, by decision
    const bool cell = op == OpKind::Lstm || op == OpKind::Gru || op == OpKind::Rnn;
    if (op == OpKind::Attention || cell || has_trait(op, kBody)) continue;  // in tests of their own
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

TEST_CASE("operations without a rule are named, all of them") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", tensor_type(DType::F64, {Dim(2), Dim(2), Dim(2)}));
  b.set_node_name(m.symbol("first"));
  const ValueId det = b.create(OpKind::Det, {x});
  b.set_node_name(m.symbol("second"));
  const ValueId y = b.create(OpKind::Cumprod, {det}, CumAttrs{0, false, false});
  CHECK_FALSE(transform::gradients(b, y, {}, std::array{x}, {}, d));
  CHECK(d.text().find("\"first\" (det)") != std::string::npos);
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
