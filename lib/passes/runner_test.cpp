#include "passes/runner.h"

#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/random_graph.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

PassResult break_types(Module& m, PassContext&) {
  Graph& g = m.main();
  g.set_type(g.outputs()[0], m.types.tensor(DType::F64, {7}));
  return {true, {}};
}
constexpr PassInfo kBreak{"break_types", "test", &break_types, ""};

// Valid, but computes a different function.
PassResult change_results(Module& m, PassContext&) {
  Graph& g = m.main();
  Builder b(g);
  const ValueId y = g.outputs()[0], z = b.unary(OpKind::Neg, y);
  g.set_outputs({&z, 1});
  return {true, {}};
}
constexpr PassInfo kWrong{"change_results", "test", &change_results, ""};

struct Fixture {
  Module m;
  PassRun run;
  RunnerOptions options;
  RunnerReport report;
  std::vector<const PassInfo*> list{find_pass("common_subexpression_elimination"), find_pass("dead_code_elimination")};
  Fixture() {
    Builder b(m.main());
    const ValueId x = b.input("x", tensor_type(DType::F32, {4}));
    b.unary(OpKind::Exp, x);
    m.main().add_output(b.add(b.unary(OpKind::Exp, x), b.unary(OpKind::Tanh, x)), {});
  }
  bool operator()() { return run_passes(m, list, run.context, options, &report); }
};

}  // namespace

TEST_CASE("the runner records each pass and dumps after it") {
  Fixture f;
  std::string dumped;
  f.options.dump = [&](std::string_view name, bool changed, const Module&) {
    dumped += std::string(name) + (changed ? "! " : " ");
  };
  CHECK(f());
  CHECK(dumped == "common_subexpression_elimination! dead_code_elimination ");
  CHECK(f.report.passes.size() == 2);
  CHECK(f.report.passes[0].nodes == 4);
  CHECK(f.report.changed);
}

TEST_CASE("disabled passes, the bisect limit and stop_after") {
  Fixture f;
  f.options.disabled = {"common_subexpression_elimination"};
  CHECK(f());
  CHECK(f.report.passes[0].skipped);
  CHECK_FALSE(f.report.passes[1].skipped);
  Fixture g;
  g.options.bisect_limit = 0;
  CHECK(g());
  CHECK_FALSE(g.report.changed);
  Fixture one;
  one.options.bisect_limit = 1;
  CHECK(one());
  CHECK(one.report.rewrites.made == 1);
  CHECK(one.report.passes[0].rewrites == 1);
  Fixture h;
  h.options.stop_after = "common_subexpression_elimination";
  CHECK(h());
  CHECK(h());
  CHECK(h.report.passes.size() == 1);
}

TEST_CASE("a pass that breaks the graph is named") {
  Fixture f;
  f.options.verify = true;
  f.list.insert(f.list.begin(), &kBreak);
  CHECK_FALSE(f());
  CHECK(f.run.diagnostics.items().at(0).code == Code::VerifyFailed);
  CHECK(f.run.diagnostics.text().find("after pass break_types") != std::string::npos);
  CHECK(f.report.passes.size() == 1);
}

TEST_CASE("a pass that changes what the graph computes is named") {
  Fixture f;
  f.options.verify_each = true;
  CHECK(f());
  f.list.push_back(&kWrong);
  CHECK_FALSE(f());
  CHECK(f.run.diagnostics.items().at(0).code == Code::PassChangedResult);
  CHECK(f.run.diagnostics.text().find("after pass change_results") != std::string::npos);
}

TEST_CASE("a fixed point ends when every pass has seen what the others left") {
  Fixture f;
  CHECK(run_to_fixed_point(f.m, f.list, 10, f.run.context, f.options, &f.report));
  CHECK(f.report.passes.size() == 2);
  CHECK(run_passes(f.m, f.list, f.run.context, f.options, &f.report));
  CHECK(f.report.passes.size() == 2);
  // The first pass merges the result of the second, which then runs once more.
  Fixture g;
  Builder b(g.m.main());
  const ValueId x = g.m.main().result(g.m.main().inputs()[0]);
  g.m.main().add_output(b.unary(OpKind::Exp, b.unary(OpKind::Neg, b.unary(OpKind::Neg, x))), {});
  g.list[1] = find_pass("algebraic_simplify");
  CHECK(run_to_fixed_point(g.m, g.list, 10, g.run.context, g.options, &g.report));
  CHECK(g.report.passes.size() == 4);
}

TEST_CASE("random graphs are valid, and equal seeds give equal graphs") {
  size_t with_bodies = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const auto a = random_graph({.seed = seed, .symbolic = seed % 2 == 0}),
               b = random_graph({.seed = seed, .symbolic = seed % 2 == 0});
    Diagnostics d;
    CHECK_MESSAGE(verify(*a, d), d.text());
    CHECK(ops(a->main()) == ops(b->main()));
    with_bodies += a->graph_count() > 1;
  }
  CHECK(with_bodies > 10);
}
