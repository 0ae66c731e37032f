#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/random_graph.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture : PassFixture {
  Fixture(PrecisionPolicy p = PrecisionPolicy::AutoMixed) { run.options.precision = p; }
  ValueId in(std::string_view name, std::vector<Dim> dims, DType t = DType::F32) {
    return b.input(name, tensor_type(t, std::move(dims)));
  }
  ValueId weight(std::string_view name, std::vector<Dim> dims) { return b.param(name, tensor_type(DType::F32, std::move(dims))); }
  PassResult mixed(std::initializer_list<ValueId> outputs) {
    for (ValueId v : outputs) g.add_output(v, {});
    return run(m, "auto_mixed_precision");
  }
  std::string without_leaves() {
    std::string s;
    for (NodeId n : g.nodes())
      if (!has_trait(g.op(n), kLeaf)) s += (s.empty() ? "" : " ") + std::string(name(g.op(n)));
    return s;
  }
  DType type_of(OpKind op) {
    for (NodeId n : g.nodes())
      if (g.op(n) == op) return g.dtype(g.result(n));
    FAIL("no such node");
    return {};
  }
};

}  // namespace

TEST_CASE("products go low with shared casts; outputs keep their type") {
  Fixture f;
  const ValueId x = f.in("x", {4, 8});
  const ValueId q = f.b.matmul(x, f.weight("wq", {8, 8})), k = f.b.matmul(x, f.weight("wk", {8, 8}));
  const PassResult r = f.mixed({f.b.add(q, k)});
  CHECK(count(r, "casts") == 4);  // x once, two weights, the output
  CHECK(f.type_of(OpKind::Add) == DType::F16);
  CHECK(f.g.dtype(f.g.outputs()[0]) == DType::F32);
  CHECK(f.run.notes.size() == 4);
  CHECK(f.run.notes[0].reason.find("input of matmul") == 0);
  CHECK_FALSE(f.run(f.m, "auto_mixed_precision").changed);
}

TEST_CASE("bf16 as well") {
  Fixture f(PrecisionPolicy::AutoMixedBf16);
  f.mixed({f.b.matmul(f.in("x", {4, 8}), f.weight("w", {8, 8}))});
  CHECK(f.type_of(OpKind::MatMul) == DType::BF16);
}

TEST_CASE("what a decision depends on stays in f32, back to the contraction") {
  for (const OpKind op : {OpKind::Floor, OpKind::Gt, OpKind::ArgReduce}) {
    Fixture f(PrecisionPolicy::AutoMixedBf16);
    const ValueId hidden = f.b.matmul(f.in("x", {4, 8}), f.weight("w1", {8, 8}));
    const ValueId score = f.b.unary(OpKind::Sigmoid, f.b.matmul(hidden, f.weight("w2", {8, 8})));
    const ValueId decision = op == OpKind::Floor ? f.b.unary(op, score)
                             : op == OpKind::Gt  ? f.b.create(op, {score, f.b.scalar(DType::F32, 0.5)})
                                                 : f.b.create(op, {score}, ArgAttrs{1});
    f.mixed({decision});
    CHECK(f.g.dtype(hidden) == DType::BF16);
    CHECK(f.g.dtype(score) == DType::F32);
    CHECK(f.type_of(OpKind::Sigmoid) == DType::F32);
  }
  Fixture sign(PrecisionPolicy::AutoMixedBf16);
  const ValueId x = sign.b.matmul(sign.in("x", {4, 8}), sign.weight("w", {8, 8}));
  sign.mixed({sign.b.create(OpKind::Where, {sign.b.create(OpKind::Gt, {x, sign.b.scalar(DType::F32, 0)}), x, x})});
  CHECK(sign.g.dtype(x) == DType::BF16);
}

TEST_CASE("indices, comparisons, masks, f64 and integers are never cast") {
  Fixture f;
  const ValueId ids = f.in("ids", {3}, DType::I64), mask = f.in("mask", {1, 1, 3, 3}, DType::Bool),
                d = f.in("d", {3}, DType::F64);
  const ValueId e = f.b.create(OpKind::Gather, {f.weight("table", {9, 8}), ids}, AxisAttrs{0});
  const ValueId x = f.b.reshape(f.b.matmul(e, f.weight("w", {8, 8})), {1, 2, 3, 4});
  AttentionAttrs a;
  a.mask = MaskKind::Custom;
  const ValueId y = f.b.create(OpKind::Attention, {x, x, x, mask}, a);
  const ValueId top = f.b.create(OpKind::ArgReduce, {y}, ArgAttrs{3});
  f.mixed({y, top, f.b.add(d, d), f.b.add(ids, ids)});
  CHECK(f.type_of(OpKind::Gather) == DType::F16);
  CHECK(f.type_of(OpKind::Attention) == DType::F16);
  for (const PrecisionNote& n : f.run.notes) CHECK((n.from == "f32" || n.to == "f32"));
  CHECK(f.g.dtype(f.g.outputs()[1]) == DType::I64);
  CHECK(f.g.dtype(f.g.outputs()[2]) == DType::F64);
  for (NodeId n : f.g.nodes())
    if (f.g.op(n) == OpKind::Cast) CHECK(is_float(f.g.dtype(f.g.operand(n, 0))));
}

TEST_CASE("a norm reads and writes low, with its scale in f32; conservative runs it in f32") {
  auto build = [](Fixture& f) {
    const ValueId x = f.b.matmul(f.in("x", {4, 8}), f.weight("w1", {8, 8}));
    const ValueId n = f.b.create(OpKind::LayerNorm, {x, f.weight("g", {8}), f.weight("b", {8})}, NormAttrs{1, 1e-12});
    f.mixed({f.b.matmul(n, f.weight("w2", {8, 8}))});
  };
  Fixture f, h(PrecisionPolicy::AutoMixedConservative);
  build(f), build(h);
  CHECK(f.without_leaves() == "cast cast matmul layer_norm cast matmul cast");
  CHECK(f.type_of(OpKind::LayerNorm) == DType::F16);
  CHECK(h.type_of(OpKind::LayerNorm) == DType::F32);
  CHECK(h.type_of(OpKind::MatMul) == DType::F16);
}

TEST_CASE("sensitive operations stay in f32, unless f16 is demanded") {
  auto build = [](Fixture& f) { f.mixed({f.b.unary(OpKind::Exp, f.b.matmul(f.in("x", {4, 8}), f.weight("w", {8, 8})))}); };
  Fixture f, h(PrecisionPolicy::F16);
  build(f), build(h);
  CHECK(f.type_of(OpKind::Exp) == DType::F32);
  CHECK(h.type_of(OpKind::Exp) == DType::F16);
}

TEST_CASE("attention of few queries reads a cache in its type, and so does what only it reads") {
  for (const int64_t queries : {1, 64}) {
    Fixture f;
    const ValueId x = f.b.matmul(f.in("x", {2, queries, 32}), f.weight("wq", {32, 32}));
    AttentionAttrs a;
    a.num_heads = 2;
    a.layout = a.out_layout = AttentionLayout::Packed;
    const std::vector<ValueId> operands{f.b.unary(OpKind::Neg, x), f.in("keys", {2, 100, 32}), f.in("values", {2, 100, 32})};
    const ValueId y = f.b.create(OpKind::Attention, operands, a);
    f.mixed({f.b.matmul(y, f.weight("wo", {32, 32}))});
    const bool few = queries == 1;
    CHECK(f.type_of(OpKind::Attention) == (few ? DType::F32 : DType::F16));
    CHECK(f.type_of(OpKind::Neg) == (few ? DType::F32 : DType::F16));
    CHECK(f.type_of(OpKind::MatMul) == DType::F16);
  }
}

TEST_CASE("casts of the model to the type that their operand has then are gone") {
  Fixture f;
  const ValueId x = f.b.matmul(f.in("x", {4, 8}), f.weight("w", {8, 8}));
  f.mixed({f.b.cast(f.b.unary(OpKind::Neg, f.b.cast(x, DType::F16)), DType::F16)});
  CHECK(f.without_leaves() == "cast cast matmul neg");
}

TEST_CASE("the widest input decides") {
  Fixture f;
  const ValueId x = f.in("x", {4, 8});
  f.mixed({f.b.add(x, f.b.matmul(x, f.weight("w", {8, 8})))});
  CHECK(f.type_of(OpKind::Add) == DType::F32);
}

TEST_CASE("a cast stands below slices and gathers, not above") {
  Fixture f;
  const ValueId x = f.in("x", {4, 64});
  f.mixed({f.b.matmul(f.b.narrow(x, 1, 0, 8), f.weight("w", {8, 8}))});
  for (NodeId n : f.g.nodes())
    if (f.g.op(n) == OpKind::Cast && f.g.op(f.g.def(f.g.operand(n, 0))) != OpKind::Param) CHECK(f.g.operand(n, 0) != x);
}

TEST_CASE("constants are converted here, masks clamped to the finite range with a note") {
  Fixture f;
  const ValueId s = f.b.matmul(f.in("x", {4, 8}), f.weight("w", {8, 2}));
  const float inf = std::numeric_limits<float>::infinity();
  const ValueId mask = f.b.constant(make_data(DType::F32, {2}, std::vector<float>{-1e9F, -inf}));
  const PassResult r = f.mixed({f.b.create(OpKind::Softmax, {f.b.add(s, mask)}, AxisAttrs{1})});
  CHECK(count(r, "constants_converted") == 1);
  const NodeId add = f.g.def(f.g.operand(f.g.def(f.g.operand(f.g.def(f.g.outputs()[0]), 0)), 0));
  REQUIRE(f.g.op(add) == OpKind::Add);
  const TensorData& d = f.m.data[f.g.attrs<DataAttrs>(f.g.def(f.g.operand(add, 1))).data];
  CHECK(d.dtype == DType::F16);
  CHECK(element_as_double(d, 0) == -65504);
  CHECK(element_as_double(d, 1) == -inf);
  CHECK(std::ranges::any_of(f.run.notes, [](const PrecisionNote& n) { return n.reason.find("clamped") != std::string::npos; }));
}

TEST_CASE("what the calibration record knows to leave the range of f16 stays in f32") {
  for (PrecisionPolicy p : {PrecisionPolicy::AutoMixed, PrecisionPolicy::AutoMixedBf16}) {
    Fixture f(p);
    const ValueId h = f.b.matmul(f.in("x", {4, 8}), f.weight("w", {8, 8}));
    f.g.set_value_name(h, f.m.symbol("h"));
    f.run.options.calibration.emplace();
    f.run.options.calibration->entries.push_back({"h", {{}, {1000}, {0}}});
    const ValueId y = f.b.matmul(f.b.unary(OpKind::Relu, h), f.weight("w2", {8, 8}));
    f.mixed({f.b.create(OpKind::Softmax, {y}, AxisAttrs{1})});
    for (ValueId v : {h, y}) CHECK(f.g.dtype(v) == (p == PrecisionPolicy::AutoMixed ? DType::F32 : DType::BF16));
    CHECK(std::ranges::any_of(f.run.notes, [](const PrecisionNote& n) {
            return n.reason.find("beyond f16") != std::string::npos;
          }) == (p == PrecisionPolicy::AutoMixed));
  }
}

TEST_CASE("automixed keeps in f32 what reads constants or weights beyond f16, and what may be as large") {
  for (PrecisionPolicy p : {PrecisionPolicy::AutoMixed, PrecisionPolicy::AutoMixedConservative, PrecisionPolicy::F16}) {
    Fixture f(p);
    const ValueId h = f.b.matmul(f.in("x", {4, 8}), f.weight("w", {8, 8}));
    const ValueId row = f.b.constant(make_data(DType::F32, {8}, std::vector<float>(8, 70000))), far = f.b.add(h, row);
    const ValueId y = f.b.matmul(f.b.unary(OpKind::Relu, far), f.weight("w2", {8, 8}));
    const ValueId large = f.b.constant(make_data(DType::F32, {8, 8}, std::vector<float>(64, -1e6F)));
    const ValueId z = f.b.matmul(h, large), near = f.b.add(f.b.div(z, row), h);
    f.mixed({f.b.reduce(ReduceOp::Max, y, {1}, false),
             f.b.reduce(ReduceOp::Max, f.b.matmul(near, f.weight("w3", {8, 8})), {1}, false)});
    const bool mixed = p != PrecisionPolicy::F16;
    CHECK(f.g.dtype(h) == DType::F16);
    for (ValueId v : {far, y, z}) CHECK(f.g.dtype(v) == (mixed ? DType::F32 : DType::F16));
    CHECK((f.run.diagnostics.text().find("clamped") == std::string::npos) == mixed);
  }
}

TEST_CASE("a cast from the narrow type in the model is used as it is") {
  Fixture f;
  const ValueId h = f.in("h", {4, 8}, DType::F16);
  f.mixed({f.b.matmul(f.b.cast(h, DType::F32), f.weight("w", {8, 8}))});
  const NodeId m = f.g.def(f.g.operand(f.g.def(f.g.outputs()[0]), 0));
  CHECK(f.g.op(m) == OpKind::MatMul);
  CHECK(f.g.operand(m, 0) == h);
}

TEST_CASE("custom rules: an operation before its class, what is not named in f32") {
  Fixture f(PrecisionPolicy::Custom);
  f.run.options.custom_precision.rules = {{"contraction", DType::BF16}, {"conv", DType::F32}};
  const ValueId x = f.in("x", {1, 2, 8});
  const ValueId y = f.b.create(OpKind::Conv, {x, f.weight("w", {2, 2, 1})}, ConvAttrs{{1}, {0}, {0}, {1}, {}, 1});
  f.mixed({f.b.unary(OpKind::Tanh, f.b.matmul(y, f.weight("w2", {8, 8})))});
  CHECK(f.type_of(OpKind::Conv) == DType::F32);
  CHECK(f.type_of(OpKind::MatMul) == DType::BF16);
  CHECK(f.type_of(OpKind::Tanh) == DType::F32);
  Fixture bad(PrecisionPolicy::Custom);
  bad.run.options.custom_precision.rules = {{"matmull", DType::F16}};
  CHECK_FALSE(bad.mixed({bad.in("x", {1})}).changed);
  CHECK(bad.run.diagnostics.items().at(0).code == Code::BadFlag);
}

TEST_CASE("random graphs stay valid, keep the types at their borders and nearly their results") {
  for (PrecisionPolicy p :
       {PrecisionPolicy::F16, PrecisionPolicy::AutoMixed, PrecisionPolicy::AutoMixedConservative, PrecisionPolicy::AutoMixedBf16})
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      const RandomGraphOptions options{.seed = seed, .symbolic = seed % 2 == 0, .control_flow = eval::has_evaluator(OpKind::If)};
      const auto before = random_graph(options), after = random_graph(options);
      PassRun run;
      run.options.precision = p;
      const PassResult r = run(*after, "auto_mixed_precision");
      for (size_t i = 0; i < before->main().outputs().size(); ++i)
        CHECK(before->main().dtype(before->main().outputs()[i]) == after->main().dtype(after->main().outputs()[i]));
      for (NodeId n : after->main().inputs()) CHECK_FALSE(after->main().dtype(after->main().result(n)) == DType::F16);
      CHECK(static_cast<int64_t>(run.notes.size()) >= count(r, "casts"));
      const PassResult again = run(*after, "auto_mixed_precision");
      CHECK_MESSAGE(count(again, "casts") == 0, "seed " << seed);
    }
}

TEST_CASE("low precision is close to f32 on a chain of products, norms and activations") {
  for (PrecisionPolicy p : {PrecisionPolicy::AutoMixed, PrecisionPolicy::AutoMixedConservative, PrecisionPolicy::AutoMixedBf16}) {
    Fixture before(p), after(p);
    for (Fixture* f : {&before, &after}) {
      ValueId x = f->in("x", {6, 16});
      for (int i = 0; i < 3; ++i) {
        const ValueId w = f->in("w" + std::to_string(i), {16, 16});
        const ValueId n = f->b.create(OpKind::LayerNorm, {x}, NormAttrs{1, 1e-5});
        x = f->b.add(x, f->b.unary(OpKind::Gelu, f->b.matmul(n, w)));
      }
      f->g.add_output(x, {});
    }
    after.run(after.m, "auto_mixed_precision");
    const auto a = results_of(before.m, 1), b = results_of(after.m, 1);
    CHECK(eval::compare(b[0], a[0], 1, 1).cosine > 0.999);
  }
}

TEST_CASE("a long chain takes one cast in and one out") {
  Fixture f;
  ValueId v = f.b.matmul(f.in("x", {4, 8}), f.weight("w", {8, 8}));
  for (int i = 0; i < 100000; ++i) v = f.b.unary(OpKind::Tanh, v);
  CHECK(count(f.mixed({v}), "casts") == 3);
}
