#include "codegen/lowering_cache.h"

#include <doctest/doctest.h>

#include "analysis/views.h"
#include "backend/kernel_folder.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "memory/plan_lir.h"
#include "support/source_dir.h"

using namespace rlxc;

namespace {

// Returns the number of lowerings of a compile with kernels, and of lowered nodes.
std::pair<size_t, size_t> lowerings_of(const std::string& model, const std::string& target) {
  CompileOptions o;
  o.input = test::source_dir() + "/" + model;
  Diagnostics d;
  auto loaded = load_model(o, d);
  REQUIRE_MESSAGE(loaded.has_value(), d.text());
  const auto compiled = compile(std::move(*loaded), target, o, {}, d);
  REQUIRE_MESSAGE(compiled.has_value(), d.text());
  write_kernel_folder(
      compiled->lir, target, {}, compiled->lowerings.get(), [](const std::string&, const auto&) {}, d);
  CHECK_MESSAGE(d.ok(), d.text());
  return {compiled->lowerings->lowerings(), codegen::count_lowered_nodes(compiled->lir)};
}

// y = x * w, for an x with this many rows.
std::unique_ptr<Module> product(int64_t rows) {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {rows, 64})), w = b.param("w", tensor_type(DType::F32, {64, 64}));
  m->main().add_output(b.matmul(x, w), m->symbol("y"));
  return m;
}

}  // namespace

TEST_CASE("a compile lowers each node once, those that share a launch included") {
  for (const char* target : {"cpu", "cuda", "wgpu", "metal"}) {
    const auto [lowerings, nodes] = lowerings_of("examples/bert.onnx", target);
    CHECK(nodes > 5);
    CHECK_MESSAGE(lowerings == nodes, target);
  }
}

TEST_CASE("kernels read a prepacked weight, or the weight where there is none") {
  const auto m = product(8);
  const Graph& g = m->main();
  const NodeId n = g.def(g.outputs()[0]);
  const GraphLayouts layouts = assign_layouts(g);
  codegen::LoweringCache lowerings{codegen::CapabilityRow()};
  const auto& prepacked = lowerings.info(g, layouts, n, derive_phases(g)).prepacked;
  REQUIRE(prepacked.size() == 1);
  CHECK(prepacked[0].operands == std::vector<uint32_t>{1});
  CHECK(prepacked[0].saved_ns > 0);
  const auto& with = lowerings.lower(g, layouts, n, true, prepacked);
  const auto& without = lowerings.lower(g, layouts, n, true, {});
  REQUIRE((with.kernels && without.kernels));
  CHECK(with.kernels->launches.size() == 2);
  CHECK(with.kernels->launches[0].on_load);
  CHECK(with.kernels->scratch.size() == 1);
  CHECK(without.kernels->launches.size() == 1);
  CHECK(without.kernels->scratch.empty());
  CHECK(&lowerings.lower(g, layouts, n, true, prepacked) == &with);
  CHECK(lowerings.lowerings() == 2);
}

TEST_CASE("equal nodes share a lowering, others do not") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {4, 8})), y = b.input("y", tensor_type(DType::F32, {8, 4}));
  const NodeId first = m.main().def(b.unary(OpKind::Exp, x)), second = m.main().def(b.unary(OpKind::Exp, x)),
               other = m.main().def(b.unary(OpKind::Exp, y));
  const GraphLayouts layouts = assign_layouts(m.main());
  codegen::LoweringCache lowerings{codegen::CapabilityRow()};
  CHECK(&lowerings.lower(m.main(), layouts, first, true, {}) == &lowerings.lower(m.main(), layouts, second, true, {}));
  CHECK(&lowerings.lower(m.main(), layouts, first, true, {}) != &lowerings.lower(m.main(), layouts, other, true, {}));
  CHECK(lowerings.lowerings() == 2);
}
