#include <algorithm>
#include <functional>

#include "ir/builder.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/random_graph.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture : PassFixture {
  Dim batch = m.dims.symbol("batch"), seq = m.dims.symbol("seq");  // both kTestSize when evaluated
  ValueId in(std::string_view name, std::vector<Dim> dims, DType t = DType::F32) {
    return b.input(name, tensor_type(t, std::move(dims)));
  }
};
using Build = std::function<ValueId(Fixture&)>;

// Builds the node twice, decomposes the given kinds (empty: all with a decomposition) and compares.
void check(const Build& build, std::vector<OpKind> foreign = {}, Tolerance t = {}) {
  Fixture before, after;
  for (Fixture* f : {&before, &after}) {
    const ValueId y = build(*f);
    REQUIRE(y.valid());
    f->g.set_node_name(f->g.def(y), f->m.symbol("/node"));
    f->g.add_output(y, f->m.symbol("y"));
  }
  const OpKind op = before.g.op(before.g.def(before.g.outputs()[0]));
  if (foreign.empty()) {
    for (int k = 0; k < kOpCount; ++k)
      if (legalise::decomposition(static_cast<OpKind>(k))) foreign.push_back(static_cast<OpKind>(k));
  }
  for (OpKind k : foreign) after.run.target.native.reset(static_cast<size_t>(k));
  after.run(after.m, "decompose");
  CHECK_MESSAGE(after.run.diagnostics.ok(), after.run.diagnostics.text());
  for (NodeId n : after.g.nodes())
    CHECK_MESSAGE(after.run.target.native[static_cast<size_t>(after.g.op(n))], name(op) << " left " << name(after.g.op(n)));
  const NodeId last = after.g.def(after.g.outputs()[0]);
  CHECK(after.g.op(last) != op);
  if (!has_trait(after.g.op(last), kLeaf)) CHECK(after.m.text(after.m.origin(after.g.origin(last)).sources.at(0)) == "/node");
  if (eval::has_evaluator(op))
    for (uint64_t seed = 1; seed <= 3; ++seed) same_results(before.m, after.m, seed, t);
}

}  // namespace

TEST_CASE("fused products and norms") {
  for (bool trans : {false, true}) {
    check([&](Fixture& f) {
      return f.b.create(OpKind::FusedMatMulBiasAct,
                        {f.in("x", {f.batch, f.seq, 4}), f.in("w", {trans ? 6 : 4, trans ? 4 : 6}), f.in("b", {6}),
                         f.in("r", {f.batch, f.seq, 6})},
                        FusedMatMulAttrs{false, trans, {true, OpKind::Gelu, 0, 0}});
    });
    check([&](Fixture& f) { return f.b.create(OpKind::FusedSwiGLU, {f.in("x", {f.batch, 8})}, SwiGLUAttrs{trans, {}}); });
    check([&](Fixture& f) {
      const auto dims = [&](int64_t k, int64_t n) { return trans ? std::vector<Dim>{n, k} : std::vector<Dim>{k, n}; };
      return f.b.create(OpKind::DequantMatMul,
                        {f.in("x", {f.batch, f.seq, 10}), f.in("w", dims(10, 6), DType::I8), f.in("s", dims(3, 6)),
                         f.in("z", dims(1, 6)), f.in("b", {6}), f.in("r", {f.batch, f.seq, 6})},
                        DequantMatMulAttrs{trans, 4, {true, OpKind::Gelu, 0, 0}});
    });
    check([&](Fixture& f) {
      const ValueId groups = f.b.constant(make_data(DType::I64, {4}, std::vector<int64_t>{1, 0, 2, 1}));
      return f.b.create(OpKind::GroupedMatMul, {f.in("x", {4, 6}), f.in("w", {3, trans ? 5 : 6, trans ? 6 : 5}), groups},
                        MatMulAttrs{false, trans});
    });
    for (bool gate_first : {false, true}) {
      check([&](Fixture& f) {
        const auto dims = [&](int64_t k, int64_t n) { return trans ? std::vector<Dim>{n, k} : std::vector<Dim>{k, n}; };
        return f.b.create(OpKind::DequantMatMul,
                          {f.in("x", {f.batch, 8}), f.in("w", dims(8, 6), DType::I8), f.in("s", dims(2, 6)), ValueId(),
                           gate_first ? f.in("b", {6}) : ValueId()},
                          DequantMatMulAttrs{trans, 4, {}, true, gate_first});
      });
      check([&](Fixture& f) {
        return f.b.create(
            OpKind::FusedMatMulSwiGLU,
            {f.in("x", {f.batch, f.seq, 4}), f.in("w", {trans ? 6 : 4, trans ? 4 : 6}), gate_first ? f.in("b", {6}) : ValueId()},
            GatedMatMulAttrs{trans, gate_first, {}});
      });
    }
    check([&](Fixture& f) {
      return f.b.create(OpKind::FusedSwiGLU, {f.in("x", {f.batch, 8})}, SwiGLUAttrs{trans, {true, OpKind::GeluApprox, 0, 0}});
    });
  }
  check([](Fixture& f) {
    return f.b.create(OpKind::FusedConvBiasAct,
                      {f.in("x", {f.batch, 4, 5, 5}), f.in("w", {6, 2, 3, 3}), f.in("b", {6}), f.in("r", {f.batch, 6, 5, 5})},
                      FusedConvAttrs{{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, 2}, {true, OpKind::Relu, 0, 0}});
  });
  for (OpKind op : {OpKind::FusedResidualLN, OpKind::FusedResidualRmsNorm})
    check([&](Fixture& f) {
      return f.b.create(
          op,
          {f.in("x", {f.batch, f.seq, 6}), f.in("r", {f.batch, f.seq, 6}), f.in("bias", {6}), f.in("g", {6}), f.in("be", {6})},
          NormAttrs{2, 1e-4});
    });
  for (OpKind op : {OpKind::LayerNorm, OpKind::RmsNorm})
    check([&](Fixture& f) {
      return f.b.create(op, {f.in("x", {f.batch, f.seq, 6}), f.in("g", {f.seq, 6})}, NormAttrs{1, 1e-4});
    });
  check([](Fixture& f) {
    return f.b.create(OpKind::GroupNorm, {f.in("x", {f.batch, 6, 2, 2}), f.in("g", {6}), f.in("be", {6})},
                      GroupNormAttrs{3, 1e-4});
  });
  check([](Fixture& f) {
    const ValueId variance = f.b.unary(OpKind::Abs, f.in("v", {4}));
    return f.b.create(OpKind::BatchNormInference,
                      {f.in("x", {f.batch, 4, 3}), f.in("g", {4}), f.in("be", {4}), f.in("m", {4}), variance},
                      NormAttrs{1, 1e-2});
  });
  for (OpKind op : {OpKind::Softmax, OpKind::LogSoftmax})
    check([&](Fixture& f) { return f.b.create(op, {f.in("x", {f.batch, f.seq, 6})}, AxisAttrs{1}); });
}

TEST_CASE("a norm of values with a large mean and a small variance does not cancel") {
  check(
      [](Fixture& f) {
        const ValueId x = f.b.add(f.b.mul(f.in("x", {f.batch, 64}), f.b.scalar(DType::F32, 0.01)), f.b.scalar(DType::F32, 100));
        return f.b.create(OpKind::LayerNorm, {x}, NormAttrs{1, 1e-6});
      },
      {OpKind::LayerNorm}, {2e-2, 2e-2});
}

TEST_CASE("attention in all layouts, with grouped keys, masks and soft-capping") {
  for (AttentionLayout layout : {AttentionLayout::BHSD, AttentionLayout::BSHD, AttentionLayout::Packed})
    for (MaskKind mask : {MaskKind::None, MaskKind::Causal, MaskKind::SlidingWindow, MaskKind::Custom, MaskKind::Bias})
      for (int64_t kv : {1, 2, 4}) {
        check([&](Fixture& f) {
          auto shape = [&](Dim s, int64_t h) -> std::vector<Dim> {
            if (layout == AttentionLayout::BHSD) return {f.batch, h, s, 4};
            return layout == AttentionLayout::BSHD ? std::vector<Dim>{f.batch, s, h, 4} : std::vector<Dim>{f.batch, s, h * 4};
          };
          AttentionAttrs a;
          a.num_heads = 4, a.num_kv_heads = kv, a.layout = layout, a.mask = mask, a.window = 1;
          a.out_layout = kv == 1 ? AttentionLayout::Packed : layout;
          a.softcap = kv == 2 ? 1.5 : 0;
          a.scale = kv == 4 ? 0.3 : 0;
          std::vector<ValueId> in{f.in("q", shape(f.seq, 4)), f.in("k", shape(5, kv)), f.in("v", shape(5, kv))};
          if (mask == MaskKind::Custom) in.push_back(f.in("mask", {f.batch, 1, f.seq, 5}, DType::Bool));
          if (mask == MaskKind::Bias) in.push_back(f.in("mask", {f.seq, 5}));
          return f.b.create(OpKind::Attention, in, a);
        });
      }
  // Padding combined with causal order, in rows with and without visible keys.
  for (MaskKind mask : {MaskKind::Causal, MaskKind::SlidingWindow, MaskKind::Custom})
    for (bool finite : {false, true})
      check([&](Fixture& f) {
        AttentionAttrs a;
        a.mask = mask, a.window = 2, a.finite_mask = finite;
        return f.b.create(
            OpKind::Attention,
            {f.in("q", {3, 2, 5, 4}), f.in("k", {3, 2, 5, 4}), f.in("v", {3, 2, 5, 4}), f.in("keep", {3, 1, 1, 5}, DType::Bool)},
            a);
      });
  // Transposed keys, and queries without a visible key.
  check([](Fixture& f) {
    AttentionAttrs a;
    a.k_transposed = true, a.mask = MaskKind::Causal;
    return f.b.create(OpKind::Attention, {f.in("q", {2, 2, 5, 4}), f.in("k", {2, 2, 4, 3}), f.in("v", {2, 2, 3, 6})}, a);
  });
}

TEST_CASE("local response normalisation, over more channels than there are too") {
  for (int64_t size : {1, 2, 3, 9})
    check([&](Fixture& f) { return f.b.create(OpKind::Lrn, {f.in("x", {f.batch, 5, 2, 3})}, LrnAttrs{size, 0.1, 0.75, 1}); });
  for (const int64_t size : std::initializer_list<int64_t>{9, 12, 150, 1000, 10'000'000'000})
    check([&](Fixture& f) { return f.b.create(OpKind::Lrn, {f.in("x", {f.batch, 110, 2, 3})}, LrnAttrs{size, 0.1, 0.75, 1}); });
}

TEST_CASE("rotary embedding in both styles, of part of the head, with narrow and full tables") {
  for (RopeStyle style : {RopeStyle::NeoX, RopeStyle::GptJ})
    for (AttentionLayout layout : {AttentionLayout::BHSD, AttentionLayout::BSHD, AttentionLayout::Packed})
      for (int64_t rotated : {8, 4})
        for (bool full : {false, true})
          check([&](Fixture& f) {
            const std::vector<Dim> x = layout == AttentionLayout::BHSD   ? std::vector<Dim>{f.batch, 2, f.seq, 8}
                                       : layout == AttentionLayout::BSHD ? std::vector<Dim>{f.batch, f.seq, 2, 8}
                                                                         : std::vector<Dim>{f.batch, f.seq, 16};
            const Dim columns = full ? rotated : rotated / 2;
            const std::vector<Dim> table = full ? std::vector<Dim>{f.batch, f.seq, columns} : std::vector<Dim>{7, columns};
            return f.b.create(OpKind::Rope, {f.in("x", x), f.in("cos", table), f.in("sin", table)},
                              RopeAttrs{8, rotated, style, layout});
          });
  for (AttentionLayout layout : {AttentionLayout::BHSD, AttentionLayout::BSHD})
    for (const std::vector<Dim>& scale : {std::vector<Dim>{8}, std::vector<Dim>{2, 8}})
      check([&](Fixture& f) {
        const std::vector<Dim> x =
            layout == AttentionLayout::BHSD ? std::vector<Dim>{f.batch, 2, f.seq, 8} : std::vector<Dim>{f.batch, f.seq, 2, 8};
        return f.b.create(OpKind::Rope, {f.in("x", x), f.in("cos", {7, 4}), f.in("sin", {7, 4}), f.in("gamma", scale)},
                          RopeAttrs{8, 8, RopeStyle::NeoX, layout, 1e-3});
      });
  check([&](Fixture& f) {  // tables of a wider type
    return f.b.create(OpKind::Rope, {f.in("x", {f.batch, f.seq, 16}, DType::F16), f.in("cos", {7, 4}), f.in("sin", {7, 4})},
                      RopeAttrs{8, 8, RopeStyle::NeoX, AttentionLayout::Packed});
  });
}

TEST_CASE("general contractions: batch, contracting and free axes in any order") {
  struct Case {
    std::vector<Dim> lhs, rhs;
    DotGeneralAttrs a;
  };
  const std::vector<Case> cases{
      {{2, 3}, {3, 4}, {{}, {}, {1}, {0}}},
      {{3, 2}, {3, 4}, {{}, {}, {0}, {0}}},
      {{2, 3}, {4, 3}, {{}, {}, {1}, {1}}},
      {{5, 2, 3}, {5, 3, 4}, {{0}, {0}, {2}, {1}}},
      {{2, 5, 3}, {3, 4, 5}, {{1}, {2}, {2}, {0}}},
      {{2, 3, 4}, {4, 3, 6}, {{}, {}, {1, 2}, {1, 0}}},
      {{2, 3}, {4}, {{}, {}, {}, {}}},
      {{3}, {3}, {{}, {}, {0}, {0}}},
      {{2, 3, 4}, {5, 3}, {{}, {}, {1}, {1}}},
  };
  for (const Case& c : cases)
    check([&](Fixture& f) { return f.b.create(OpKind::DotGeneral, {f.in("l", c.lhs), f.in("r", c.rhs)}, c.a); });
  Fixture f;
  f.g.add_output(f.b.create(OpKind::DotGeneral, {f.in("l", {2, 3}), f.in("r", {4, 3})}, DotGeneralAttrs{{}, {}, {1}, {1}}), {});
  f.run(f.m, "lower_dot_general");
  CHECK(ops(f.g) == "input input matmul");
}

TEST_CASE("activations, each alone and down to arithmetic") {
  const std::vector<std::pair<OpKind, Attrs>> cases{{OpKind::Gelu, NoAttrs{}},
                                                    {OpKind::GeluApprox, NoAttrs{}},
                                                    {OpKind::Silu, NoAttrs{}},
                                                    {OpKind::Relu, NoAttrs{}},
                                                    {OpKind::Sigmoid, NoAttrs{}},
                                                    {OpKind::Tanh, NoAttrs{}},
                                                    {OpKind::Softplus, NoAttrs{}},
                                                    {OpKind::Mish, NoAttrs{}},
                                                    {OpKind::LogSigmoid, NoAttrs{}},
                                                    {OpKind::Softsign, NoAttrs{}},
                                                    {OpKind::HardSwish, NoAttrs{}},
                                                    {OpKind::Recip, NoAttrs{}},
                                                    {OpKind::Expm1, NoAttrs{}},
                                                    {OpKind::HardSigmoid, AlphaBetaAttrs{0.2, 0.5}},
                                                    {OpKind::Elu, AlphaBetaAttrs{0.7, 0}},
                                                    {OpKind::Selu, AlphaBetaAttrs{1.67, 1.05}},
                                                    {OpKind::Celu, AlphaBetaAttrs{0.8, 0}},
                                                    {OpKind::LeakyRelu, AlphaBetaAttrs{0.1, 0}},
                                                    {OpKind::ThresholdedRelu, AlphaBetaAttrs{0.5, 0}},
                                                    {OpKind::Shrink, AlphaBetaAttrs{0.5, 0.2}},
                                                    {OpKind::Swish, AlphaBetaAttrs{1.7, 0}},
                                                    {OpKind::Clamp, ClampAttrs{-0.5, 1}}};
  for (const auto& [op, attrs] : cases)
    for (bool all : {false, true})
      for (double scale : {1.0, 1e-3, 20.0})
        check(
            [&, op = op, attrs = attrs](Fixture& f) {
              return f.b.create(op, {f.b.mul(f.in("x", {f.batch, 9}), f.b.scalar(DType::F32, scale))}, attrs);
            },
            all ? std::vector<OpKind>{} : std::vector{op}, {1e-4, op == OpKind::LogSigmoid ? 1e-5 : 1e-6});
  for (bool all : {false, true}) {
    auto positive = [](Fixture& f) { return f.b.unary(OpKind::Abs, f.in("x", {9})); };
    check([&](Fixture& f) { return f.b.unary(OpKind::Log1p, f.b.mul(positive(f), f.b.scalar(DType::F32, 1e-4))); },
          all ? std::vector<OpKind>{} : std::vector{OpKind::Log1p});
    check([&](Fixture& f) { return f.b.unary(OpKind::Rsqrt, positive(f)); },
          all ? std::vector<OpKind>{} : std::vector{OpKind::Rsqrt});
    check([&](Fixture& f) { return f.b.create(OpKind::Fma, {f.in("x", {3}), f.in("y", {3}), f.in("z", {1})}); });
    check([&](Fixture& f) { return f.b.create(OpKind::PRelu, {f.in("x", {3, 4}), f.in("y", {4})}); });
  }
}

TEST_CASE("movement: tiles, strided slices, flips, triangles, one-hot and padding") {
  check([](Fixture& f) { return f.b.create(OpKind::Tile, {f.in("x", {f.batch, 2})}, DimsAttrs{{2, 3}, false}); });
  check([](Fixture& f) { return f.b.create(OpKind::Slice, {f.in("x", {f.batch, 9})}, SliceAttrs{1, 7, 3, -3}); });
  check([](Fixture& f) { return f.b.create(OpKind::Slice, {f.in("x", {f.batch, 9})}, SliceAttrs{1, 1, 3, 2}); });
  check([](Fixture& f) { return f.b.create(OpKind::Reverse, {f.in("x", {f.batch, f.seq, 2})}, AxesAttrs{{0, 1}}); });
  for (bool upper : {false, true})
    for (int64_t k : {-1, 0, 2})
      check([&](Fixture& f) { return f.b.create(OpKind::Trilu, {f.in("x", {2, f.seq, 4})}, TriluAttrs{upper, k}); });
  for (int64_t axis : {0, 1, 2})
    check([&](Fixture& f) {
      return f.b.create(OpKind::OneHot, {f.in("i", {f.batch, 2}, DType::I64), f.in("v", {2})}, OneHotAttrs{axis, 4});
    });
  for (PadMode mode : {PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap})
    check([&](Fixture& f) {
      return f.b.create(OpKind::Pad, {f.in("x", {f.batch, 4, 3})}, PadAttrs{{0, 2, 1}, {0, 3, 2}, mode});
    });
  check([](Fixture& f) {
    return f.b.create(OpKind::Pad, {f.in("x", {f.batch, 4}), f.b.scalar(DType::F32, 7)},
                      PadAttrs{{Dim(1), f.m.dims.constant(-1)}, {Dim(0), Dim(2)}, PadMode::Constant});
  });
}

TEST_CASE("resizing: modes, coordinate rules, antialiasing") {
  for (ResizeMode mode : {ResizeMode::Nearest, ResizeMode::Linear, ResizeMode::Cubic})
    for (CoordMode coord : {CoordMode::HalfPixel, CoordMode::AlignCorners, CoordMode::Asymmetric, CoordMode::TfCropAndResize})
      for (bool shrink : {false, true})
        check([&](Fixture& f) {
          ResizeAttrs a;
          a.sizes = {f.batch, Dim(shrink ? 3 : 9), Dim(shrink ? 2 : 7)}, a.mode = mode, a.coord = coord;
          a.antialias = shrink && mode != ResizeMode::Nearest, a.exclude_outside = shrink, a.extrapolation = 2;
          if (coord == CoordMode::TfCropAndResize) a.roi = {0, -0.2, 0.1, 1, 0.8, 1.3}, a.sizes[0] = Dim(2);
          return f.b.create(OpKind::Resize, {f.in("x", {a.sizes[0], 5, 4})}, a);
        });
}

TEST_CASE("recurrences are scans, with all their options") {
  for (OpKind op : {OpKind::Lstm, OpKind::Gru, OpKind::Rnn})
    for (int variant = 0; variant < 5; ++variant)
      for (size_t result = 0; result < (op == OpKind::Lstm ? 3u : 2u); ++result)
        check([&](Fixture& f) {
          const bool bidirectional = variant == 2 || variant == 4, full = variant >= 3;
          const int64_t gates = op == OpKind::Lstm ? 4 : op == OpKind::Gru ? 3 : 1, hidden = 3, d = bidirectional ? 2 : 1;
          RnnAttrs a;
          a.hidden = hidden;
          a.direction = bidirectional  ? RnnDirection::Bidirectional
                        : variant == 1 ? RnnDirection::Reverse
                                       : RnnDirection::Forward;
          a.batch_first = variant == 4, a.linear_before_reset = variant == 1, a.input_forget = variant == 3;
          if (variant == 3) a.clip = 0.4;
          if (variant == 1) {
            a.activations = {"HardSigmoid", "ScaledTanh", "Affine"}, a.activation_alpha = {0.3, 0.9, 0.5},
            a.activation_beta = {0.4, 1.1, 0.2};
            a.activations.resize(op == OpKind::Lstm ? 3 : op == OpKind::Gru ? 2 : 1);
          }
          const std::vector<Dim> state = a.batch_first ? std::vector<Dim>{2, d, hidden} : std::vector<Dim>{d, 2, hidden};
          std::vector<ValueId> in = {f.in("x", a.batch_first ? std::vector<Dim>{2, f.seq, 4} : std::vector<Dim>{f.seq, 2, 4}),
                                     f.in("w", {d, gates * hidden, 4}), f.in("r", {d, gates * hidden, hidden})};
          if (full) {
            in.push_back(f.in("b", {d, 2 * gates * hidden}));
            in.push_back(f.b.constant(make_data(DType::I32, {2}, std::vector<int32_t>{1, 2})));
            in.push_back(f.in("h0", state));
            if (op == OpKind::Lstm) in.push_back(f.in("c0", state)), in.push_back(f.in("p", {d, 3 * hidden}));
          }
          return f.g.result(f.b.create_node(op, in, a), result);
        });
}

TEST_CASE("n-grams are compared with the pool; the draws of a generator are known") {
  NgramAttrs a;
  a.counts = {0, 3, 7}, a.indexes = {1, 0, 6, 3, 4}, a.pool_ints = {0, 2, 3, 1, 0, 2, 2}, a.weights = {1, 2, 0.5, 3, 0.25};
  for (NgramWeight mode : {NgramWeight::Tf, NgramWeight::Idf, NgramWeight::TfIdf})
    for (int64_t skip : {0, 2})
      for (int64_t longest : {1, 2})
        check([&](Fixture& f) {
          a.mode = mode, a.max_skip = skip, a.max_length = longest;
          return f.b.create(OpKind::Ngram, {f.in("x", {f.batch, 7}, DType::I32)}, a);
        });
  for (bool normal : {true, false}) {
    RandomAttrs r;
    r.dims = {Dim(3), Dim(5)}, r.normal = normal, r.seed = 7;
    check([&](Fixture& f) { return f.b.create(OpKind::Random, {}, r); });
  }
}

TEST_CASE("quantized operations, per tensor and per axis") {
  for (DType t : {DType::I8, DType::U8})
    for (bool per_axis : {false, true}) {
      auto positive = [&](Fixture& f) {
        return f.b.add(f.b.unary(OpKind::Abs, f.in("s", per_axis ? std::vector<Dim>{4} : std::vector<Dim>{})),
                       f.b.scalar(DType::F32, 0.01));
      };
      auto zero = [&](Fixture& f) { return f.in("z", per_axis ? std::vector<Dim>{4} : std::vector<Dim>{}, t); };
      check(
          [&](Fixture& f) {
            return f.b.create(OpKind::Quantize, {f.in("x", {f.batch, 4, 2}), positive(f), zero(f)}, QuantAttrs{1, 0, t, true});
          },
          {OpKind::Quantize});
      check(
          [&](Fixture& f) {
            return f.b.create(OpKind::Dequantize, {f.in("x", {f.batch, 4, 2}, t), positive(f), zero(f)},
                              QuantAttrs{1, 0, DType::F32, true});
          },
          {OpKind::Dequantize});
    }
  check([](Fixture& f) {
    return f.b.create(OpKind::QMatMul, {f.in("a", {f.batch, 3, 4}, DType::U8), f.in("b", {4, 5}, DType::I8),
                                        f.in("za", {3}, DType::U8), f.in("zb", {5}, DType::I8)});
  });
  check([](Fixture& f) {
    return f.b.create(OpKind::QConv,
                      {f.in("x", {f.batch, 2, 4, 4}, DType::U8), f.in("w", {3, 2, 3, 3}, DType::I8), f.in("zx", {}, DType::U8),
                       f.in("zw", {3}, DType::I8)},
                      ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, 1});
  });
}

TEST_CASE("what the target runs stays whole, and only the kinds it lacks are expanded") {
  Fixture f;
  const ValueId x = f.in("x", {f.batch, 4});
  f.g.add_output(f.b.add(f.b.create(OpKind::Softmax, {x}, AxisAttrs{1}), f.b.create(OpKind::LayerNorm, {x}, NormAttrs{1, 1e-5})),
                 {});
  f.run.target.native.reset(static_cast<size_t>(OpKind::LayerNorm));
  f.run(f.m, "decompose");
  CHECK(ops(f.g).find("softmax") != std::string::npos);
  CHECK(ops(f.g).find("layer_norm") == std::string::npos);
  CHECK_FALSE(f.run(f.m, "decompose").changed);
}

TEST_CASE("all nodes that stay unsupported are named in one message a kind") {
  Fixture f;
  const ValueId x = f.in("x", {f.batch, 4});
  for (int i = 0; i < 3; ++i) {
    const std::vector<ValueId> in{x};
    const NodeId n = f.b.create_node(OpKind::TopK, in, TopKAttrs{1 + i, 1});
    f.g.set_node_name(n, f.m.symbol("/top" + std::to_string(i)));
    f.g.add_output(f.g.result(n), {});
  }
  f.g.add_output(f.b.create(OpKind::ArgReduce, {x}, ArgAttrs{}), {});
  f.run.target.native.reset(static_cast<size_t>(OpKind::TopK));
  f.run.target.native.reset(static_cast<size_t>(OpKind::ArgReduce));
  f.run(f.m, "decompose");
  CHECK(f.run.diagnostics.errors() == 2);
  CHECK(f.run.diagnostics.items()[0].code == Code::UnsupportedOnTarget);
  for (const char* node : {"\"/top0\" (f32[batch,4])", "\"/top1\"", "\"/top2\""})
    CHECK(f.run.diagnostics.text().find(node) != std::string::npos);
}

TEST_CASE("random graphs decompose, in bodies too") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const RandomGraphOptions options{.seed = seed, .symbolic = seed % 2 == 0, .control_flow = eval::has_evaluator(OpKind::If)};
    const auto before = random_graph(options), after = random_graph(options);
    PassRun run;
    for (int k = 0; k < kOpCount; ++k)
      if (legalise::decomposition(static_cast<OpKind>(k))) run.target.native.reset(static_cast<size_t>(k));
    run(*after, "decompose");
    CHECK_MESSAGE(run.diagnostics.ok(), run.diagnostics.text());
    same_results(*before, *after, seed, {1e-3, 1e-4});
  }
}
