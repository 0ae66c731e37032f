// One package serves prompts and steps: where a run decides the number of rows or queries, one row has kernels of its own on
// grids, and a run launches those of its number only. Both must equal the reference evaluator; the interpreter must see no race.
#include <doctest/doctest.h>

#include "backend/backend.h"
#include "backend/registry.h"
#include "codegen/make_package.h"
#include "eval/compare.h"
#include "ir/text.h"
#include "kernel/fold.h"
#include "memory/plan_lir.h"
#include "runtime/interpret_package.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// Launches of grids that are not empty.
int64_t launches(const codegen::Package& p, const DimTable& dims, const DimBindings& sizes) {
  int64_t count = 0;
  for (const codegen::Command& c : p.graphs[0].run) {
    if (c.kind != codegen::Command::Kind::Launch) continue;
    const kernel::Kernel& k = p.kernels[c.kernel];
    std::vector<int64_t> values;
    for (const Dim d : c.sizes) values.push_back(*dims.evaluate(d, sizes));
    bool empty = false;
    for (const kernel::ExprId e : kernel::launch_of(k).grid) empty = empty || (e.valid() && kernel::evaluate(k, e, values) == 0);
    count += !empty;
  }
  return count;
}

struct Model {
  const char* text;
  int64_t of_one, of_many;  // launches
  double tolerance = 1e-3;
};

void check(const Model& model, const std::string& target) {
  INFO(target << ": " << std::string(model.text));
  Diagnostics d;
  auto m = parse_text(std::string("module \"m\" hir {\ngraph @main {\n") + model.text + "}\n}\n", d);
  REQUIRE_MESSAGE(m != nullptr, d.text());
  Graph& g = m->main();
  for (auto& [name, value] : eval::random_weights(*m, {}, 1, {-2, 2, 0, 15}))
    for (const NodeId n : g.nodes())
      if (g.op(n) == OpKind::Param && m->bytes(g.value_name(g.result(n))) == name)
        g.set_attrs(n, m->attrs.intern(DataAttrs{m->data.add(std::move(value.tensor))}));
  std::vector<eval::EquivalenceOptions> sizes;
  std::vector<std::vector<eval::HostValue>> inputs, expected;
  for (const int64_t rows : {1, 2, 5, 1}) {
    sizes.push_back(equivalence_options(*m, static_cast<uint64_t>(rows)));
    sizes.back().evaluation.bindings["rows"] = rows;
    inputs.push_back(eval::random_inputs(*m, sizes.back()));
    expected.push_back(results_of(*m, sizes.back()));
  }
  const auto lir = plan_lir(std::move(m), {.verify = true}, d, {.kernels = capability(find_backend(target)->info)});
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  const auto package = codegen::make_package(*lir, "m", *capability(find_backend(target)->info), d);
  REQUIRE_MESSAGE(package.has_value(), d.text());
  const auto runner = make_interpreting_runner(*lir, target, d);
  REQUIRE_MESSAGE(runner != nullptr, d.text());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t rows = sizes[i].evaluation.bindings.at("rows");
    INFO(rows << " rows");
    CHECK(launches(*package, lir->module->dims, sizes[i].evaluation.bindings) == (rows == 1 ? model.of_one : model.of_many));
    const auto actual = runner->run(inputs[i], d);
    REQUIRE_MESSAGE(actual.has_value(), d.text());
    const auto c = eval::compare((*actual)[0], expected[i][0], model.tolerance, model.tolerance);
    CHECK_MESSAGE(c.pass, c.message);
  }
}

}  // namespace

TEST_CASE("a run of one row launches kernels of one row") {
  const Model models[] = {
      {R"(  %0 = input "x" : f32[rows,80]
  %1 = param "w" : f32[80,96]
  %2 = param "bias" : f32[96]
  %3 = fused_matmul_bias_act(%0, %1, %2) {act = "relu"} : f32[rows,96]
  return %3 "y"
)",
       1, 1},
      {R"(  %0 = input "x" : f16[1,rows,128]
  %1 = param "w" : f16[128,64]
  %2 = matmul(%0, %1) : f16[1,rows,64]
  return %2 "y"
)",
       1, 1, 2e-2},
      {R"(  %0 = input "x" : f32[rows,128]
  %1 = param "w" : u4[64,128]
  %2 = param "scale" : f32[64,4]
  %3 = dequant_matmul(%0, %1, %2) {trans_b = true, block = 32, int8_x = true} : f32[rows,64]
  return %3 "y"
)",
       1, 2},
      {R"(  %0 = input "q" : f32[1,4,rows,32]
  %1 = input "k" : f32[1,2,600,32]
  %2 = input "v" : f32[1,2,600,32]
  %3 = attention(%0, %1, %2) {layout = "bhsd", out_layout = "bhsd", num_heads = 4, num_kv_heads = 2, mask = "causal"} : f32[1,4,rows,32]
  return %3 "y"
)",
       2, 1},
      {R"(  %0 = input "q" : f16[1,rows,64]
  %1 = input "k" : f16[1,past,64]
  %2 = input "v" : f16[1,past,64]
  %3 = attention(%0, %1, %2) {layout = "packed", out_layout = "packed", num_heads = 2, num_kv_heads = 2, mask = "none"} : f16[1,rows,64]
  return %3 "y"
)",
       2, 1, 1e-2},
  };
  for (const char* target : {"cuda", "rocm", "metal", "wgpu"})
    for (const Model& m : models) check(m, target);
}
