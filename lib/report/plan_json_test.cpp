#include "report/plan_json.h"

#include <doctest/doctest.h>

#include "report/slots.h"
#include "support/bump_plan.h"
#include "support/example_module.h"
#include "support/golden.h"
#include "support/schema.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("plan.json of a static and of a symbolic module") {
  for (const bool symbolic : {false, true}) {
    const LirModule lir = bump_lir(example_module(symbolic));
    std::string text;
    JsonWriter out(text);
    report::write_plan(lir, out, {"example.onnx", "", false, "cpu", "0.1.0"});
    check_schema("plan", text);
    check_golden(symbolic ? "report/plan_symbolic.json" : "report/plan.json", text);
  }
}

TEST_CASE("views and in-place results belong to the slot of their root") {
  LirModule lir = bump_lir(example_module());
  GraphPlan& plan = lir.plans[0];
  // %8 overwrites %6, the root of the view %7.
  plan.slot[8].root = ValueId(6), plan.slot[8].in_place = true, plan.slot[8].offset = plan.slot[6].offset;
  const auto slots = report::root_slots(lir.module->main(), plan);
  REQUIRE(slots.size() == 7);
  CHECK(slots.back().root == ValueId(6));
  CHECK(slots.back().values == 3);
  CHECK(slots.back().first_step == 6);
  CHECK(slots.back().last_step == 9);
}
