#include "memory/states.h"

#include <doctest/doctest.h>

#include "codegen/make_package.h"
#include "eval/random.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"
#include "memory/verify_contents.h"
#include "runtime/interpret_package.h"
#include "runtime/run_package.h"

using namespace rlxc;

namespace {

const Type kCache = tensor_type(DType::F32, {Dim(6), Dim(4)});

// A cache [6, 4] of which a run updates two rows.
struct Model {
  std::unique_ptr<Module> m = std::make_unique<Module>();
  Builder b{m->main()};
  ValueId old = b.input("cache", kCache);
  ValueId at = b.input("at", tensor_type(DType::I64, {Dim(2), Dim(1)}));
  ValueId rows = b.input("rows", tensor_type(DType::F32, {Dim(2), Dim(4)}));

  ValueId updated() { return b.create(OpKind::ScatterNd, {old, at, rows}, ScatterAttrs{}); }
  void output(ValueId v, std::string_view name) { m->main().add_output(v, m->symbol(name)); }
};

// Plans with the states, runs it interpreted and compiled, and compares with the reference evaluator.
std::optional<LirModule> check(std::unique_ptr<Module> m, const std::vector<std::pair<std::string, std::string>>& names,
                               PlanOptions options = {}) {
  m->name = ForeignText("states");
  Diagnostics d;
  auto states = find_states(*m, names, d);
  REQUIRE_MESSAGE(states.has_value(), d.text());
  std::vector<eval::HostValue> inputs;
  for (NodeId n : m->main().inputs())
    inputs.push_back(eval::random_value(*m, m->main().type(m->main().result(n)), {}, inputs.size() + 1, {.int_high = 2}));
  const auto expected = eval::evaluate(*m, inputs, d);
  REQUIRE(expected.has_value());
  options.verify = true;
  auto lir = plan_lir(std::move(m), options, d, {.states = std::move(*states)});
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  const auto agrees = [&](const std::optional<std::vector<eval::HostValue>>& actual) {
    REQUIRE_MESSAGE(actual.has_value(), d.text());
    for (size_t i = 0; i < expected->size(); ++i) CHECK(eval::compare((*actual)[i], (*expected)[i], 1e-5, 1e-6).pass);
  };
  for (const char* target : {"cpu", "cuda"}) {
    const auto runner = make_interpreting_runner(*lir, target, d);
    REQUIRE_MESSAGE(runner != nullptr, d.text());
    agrees(runner->run(inputs, d));
  }
  const auto package = codegen::make_package(*lir, "states", {}, d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  agrees(run_package(*package, inputs, d));
  return lir;
}

const Slot& slot_of_output(const LirModule& lir, size_t i) { return lir.plans[0].slot[lir.module->main().outputs()[i].raw]; }

size_t count_steps(const LirModule& lir, codegen::Command::Kind kind) {
  Diagnostics d;
  const auto package = codegen::make_package(lir, "states", {}, d);
  REQUIRE(package.has_value());
  return static_cast<size_t>(
      std::ranges::count_if(package->graphs[0].run, [&](const codegen::Command& s) { return s.kind == kind; }));
}

}  // namespace

TEST_CASE("a cache is updated in its buffer, without a copy") {
  Model model;
  const ValueId updated = model.updated();
  model.output(model.b.unary(OpKind::Exp, updated), "y");
  model.output(updated, "new_cache");
  const auto lir = check(std::move(model.m), {{"cache", "new_cache"}});
  CHECK(slot_of_output(*lir, 1).region == Region::State);
  CHECK(slot_of_output(*lir, 1).index == 1);
  CHECK(slot_of_output(*lir, 1).in_place);
  CHECK(lir->plans[0].arena_size == Dim(0));
  CHECK(count_steps(*lir, codegen::Command::Kind::Launch) == 2);
  CHECK(count_steps(*lir, codegen::Command::Kind::Copy) == 0);
}

TEST_CASE("an old state that is still read, or handed out, is kept until then") {
  for (const bool handed_out : {false, true}) {
    Model model;
    const ValueId updated = model.updated();
    model.output(updated, "new_cache");
    model.output(handed_out ? model.b.reshape(model.old, {24}) : model.b.add(model.b.unary(OpKind::Exp, model.old), updated),
                 "y");
    PlanOptions given;
    given.reorder = false;
    const auto lir = check(std::move(model.m), {{"cache", "new_cache"}}, given);
    CHECK(slot_of_output(*lir, 0).region == Region::Activations);
    CHECK(count_steps(*lir, codegen::Command::Kind::Copy) == (handed_out ? 2 : 1));
  }
}

TEST_CASE("a new state that does not come from the old one is written to its buffer once that is read for the last time") {
  Model model;
  const ValueId sum = model.b.create(OpKind::Reduce, {model.old}, ReduceAttrs{ReduceOp::Sum, {0}, true});
  const Type square = tensor_type(DType::F32, {Dim(4), Dim(4)});
  const ValueId w = model.b.param("w", square, model.m->data.add(eval::random_value(*model.m, square, {}, 9).tensor));
  const ValueId scaled = model.b.matmul(sum, w);
  model.output(model.b.expand(model.b.matmul(scaled, w), {6, 4}), "new_cache");
  const auto lir = check(std::move(model.m), {{"cache", "new_cache"}});
  CHECK(slot_of_output(*lir, 0).region == Region::State);
  CHECK(count_steps(*lir, codegen::Command::Kind::Copy) == 0);
}

TEST_CASE("two states never land in each other's buffer") {
  Model model;
  const ValueId other = model.b.input("other", kCache);
  model.output(model.b.unary(OpKind::Neg, other), "new_cache");
  model.output(model.updated(), "new_other");
  check(std::move(model.m), {{"cache", "new_cache"}, {"other", "new_other"}});

  Model swap;
  const ValueId second = swap.b.input("other", kCache);
  swap.output(second, "new_cache");
  swap.output(swap.old, "new_other");
  Diagnostics d;
  CHECK_FALSE(plan_lir(std::move(swap.m), {}, d, {.states = {{0, 0}, {3, 1}}}));
  CHECK(d.text().find("the old value of another") != std::string::npos);
}

TEST_CASE("names and types of states are checked") {
  Model model;
  model.output(model.updated(), "new_cache");
  model.output(model.b.unary(OpKind::Exp, model.rows), "y");
  const auto refused = [&](const std::vector<std::pair<std::string, std::string>>& names, std::string_view text) {
    Diagnostics d;
    CHECK_FALSE(find_states(*model.m, names, d));
    CHECK_MESSAGE(d.text().find(text) != std::string::npos, d.text());
  };
  refused({{"caches", "new_cache"}}, "did you mean cache");
  refused({{"cache", "nothing"}}, "no output of the model");
  refused({{"cache", "y"}}, "must be one type");
  refused({{"cache", "new_cache"}, {"rows", "new_cache"}}, "part of another state");
}

TEST_CASE("a plan that overwrites a state before its last reader is noticed") {
  Model model;
  const ValueId updated = model.updated();
  model.output(updated, "new_cache");
  model.output(model.b.unary(OpKind::Exp, updated), "y");
  auto lir = check(std::move(model.m), {{"cache", "new_cache"}});
  const Graph& g = lir->module->main();
  Diagnostics d;
  CHECK(verify_contents(g, lir->plans[0], d));
  const NodeId reader = g.def(g.outputs()[1]);
  lir->module->main().set_operand(reader, 0, g.result(g.inputs()[0]));
  CHECK_FALSE(verify_contents(g, lir->plans[0], d));
  CHECK_MESSAGE(d.text().find("a state is read after it was overwritten") != std::string::npos, d.text());
}
