#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/random_graph.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture : PassFixture {
  std::string folded(ValueId v) {
    g.add_output(v, {});
    run(m, "constant_folding");
    return ops(g);
  }
  const TensorData& value() { return m.data[g.attrs<DataAttrs>(g.def(g.outputs()[0])).data]; }
};

}  // namespace

TEST_CASE("arithmetic of integers folds exactly, also beyond 2^53") {
  Fixture f;
  const ValueId a = f.b.constant(make_data(DType::I64, {2}, std::vector<int64_t>{(int64_t{1} << 60) + 1, 3}));
  CHECK(f.folded(f.b.add(f.b.mul(a, f.b.scalar(DType::I64, 4)), f.b.scalar(DType::I64, 1))) == "constant");
  CHECK(element_as_int(f.value(), 0) == static_cast<int64_t>(4 * ((uint64_t{1} << 60) + 1) + 1));
  CHECK(element_as_int(f.value(), 1) == 13);
}

TEST_CASE("gelu, rounding and casts fold by their definition") {
  Fixture f;
  f.folded(f.b.unary(OpKind::Gelu, f.b.scalar(DType::F32, 1)));
  CHECK(element_as_double(f.value(), 0) == doctest::Approx(0.8413447).epsilon(1e-6));
  Fixture h;
  h.folded(h.b.unary(OpKind::Round, h.b.scalar(DType::F32, 2.5)));
  CHECK(element_as_double(h.value(), 0) == 2);
  Fixture k;
  k.folded(k.b.cast(k.b.constant(make_data(DType::F32, {2}, std::vector<float>{1.5F, -2})), DType::F16));
  CHECK(k.value().bytes.size() == 4);
  CHECK(element_as_double(k.value(), 1) == -2);
}

TEST_CASE("parameters are not folded, and the budget is kept") {
  Fixture f;
  const DataId d = f.m.data.add(make_data(DType::F32, {1}, std::vector<float>{1}));
  CHECK(f.folded(f.b.unary(OpKind::Exp, f.b.param("w", tensor_type(DType::F32, {1}), d))) == "param exp");
  Fixture h;
  h.run.options.fold_max_bytes = 100;
  CHECK(h.folded(h.b.unary(OpKind::Exp, h.b.constant(make_data(DType::F32, {26}, std::vector<float>(26, 1))))) == "constant exp");
  Fixture k;
  k.run.options.fold_max_bytes = 100;
  CHECK(k.folded(k.b.expand(k.b.scalar(DType::F32, 3), {1000, 1000})) == "constant");
  CHECK(k.value().splat);
}

TEST_CASE("folding ends with an error when it has taken too many operations") {
  Fixture f;
  ValueId x = f.b.constant(make_data(DType::F32, {100}, std::vector<float>(100, 0.5F)));
  for (int i = 0; i < 10; ++i) x = f.b.unary(OpKind::Sin, x);
  f.run.options.max_operations = 10000;
  CHECK(f.folded(x) == "constant");
  CHECK(f.run.diagnostics.ok());
  Fixture h;
  x = h.b.constant(make_data(DType::F32, {100}, std::vector<float>(100, 0.5F)));
  for (int i = 0; i < 10; ++i) x = h.b.unary(OpKind::Sin, x);
  h.run.options.max_operations = 300;
  h.folded(x);
  CHECK(h.run.diagnostics.exit() == ExitCode::Limit);
  CHECK_MESSAGE(h.run.diagnostics.text().find("--max-operations") != std::string::npos, h.run.diagnostics.text());
}

TEST_CASE("a size that constants tell takes the place of its symbol, unless several nodes make it") {
  Fixture f;
  const ValueId found = f.b.unary(OpKind::NonZero, f.b.ints({0, 7, 0, 9}));
  const ValueId x = f.b.input("x", tensor_type(DType::F32, {4}));
  const Dim count = f.g.dims(found)[1];
  const ValueId taken = f.b.create(OpKind::Gather, {x, f.b.reshape(found, {count})}, AxisAttrs{0});
  CHECK(f.folded(taken) == "constant input reshape gather");
  CHECK(text(f.g.type(taken), f.m.dims) == "f32[2]");
  f.run(f.m, "constant_folding");
  CHECK(ops(f.g) == "input constant gather");
  Fixture h;
  const ValueId a = h.b.unary(OpKind::NonZero, h.b.ints({0, 7})), b = h.b.unary(OpKind::NonZero, h.b.ints({7, 7}));
  h.g.set_type(b, h.g.type_id(a));
  h.g.add_output(b, {});
  CHECK(h.folded(a) == "constant non_zero constant non_zero");
}

TEST_CASE("a node that fails is left to run time") {
  Fixture f;
  CHECK(f.folded(f.b.create(OpKind::Gather, {f.b.ints({1, 2}), f.b.ints({5})}, AxisAttrs{0})) == "constant constant gather");
}

TEST_CASE("folding and simplifying random graphs keeps their results") {
  int64_t folded = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomGraphOptions options{.seed = seed, .symbolic = seed % 2 == 0, .control_flow = eval::has_evaluator(OpKind::If)};
    const auto before = random_graph(options), after = random_graph(options);
    PassRun run;
    for (const char* pass :
         {"sccp", "constant_folding", "algebraic_simplify", "common_subexpression_elimination", "dead_code_elimination"}) {
      const PassResult r = run(*after, pass);
      if (std::string_view(pass) == "constant_folding") folded += r.counts[0].second;
    }
    same_results(*before, *after, seed);
    run(*after, "constant_folding");
    CHECK_FALSE(run(*after, "constant_folding").changed);
  }
  CHECK(folded > 20);
}

TEST_CASE("regions of random graphs compute what their nodes did") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const RandomGraphOptions options{.seed = seed, .symbolic = seed % 2 == 0, .control_flow = eval::has_evaluator(OpKind::If)};
    const auto before = random_graph(options), after = random_graph(options);
    PassRun run;
    run(*after, "mark_elementwise_regions");
    same_results(*before, *after, seed);
    run.target.native.reset(static_cast<size_t>(OpKind::ElementwiseRegion));
    run(*after, "unfuse_elementwise_regions");
    same_results(*before, *after, seed);
  }
}
