#include "passes/legalise/unfuse_elementwise_regions.h"

#include "ir/builder.h"
#include "support/pass_run.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture {
  Module m;
  Builder b{m.main()};
  PassRun run;
  Fixture() {
    const ValueId x = b.input("x", tensor_type(DType::F32, {8, 4})), row = b.input("row", tensor_type(DType::F32, {4}));
    const ValueId k = b.create(OpKind::Clamp, {b.add(x, row)}, ClampAttrs{-1, 2});
    const ValueId c = b.create(OpKind::LeakyRelu, {k}, AlphaBetaAttrs{0.25, 0});
    m.main().add_output(b.create(OpKind::Where, {b.create(OpKind::Lt, {c, row}), b.cast(b.cast(c, DType::I32), DType::F32), x}),
                        {});
    m.main().set_node_name(m.main().def(m.main().outputs()[0]), m.symbol("where_1"));
  }
};

}  // namespace

TEST_CASE("unfusing restores the steps with their attributes and types") {
  Fixture f;
  const std::string before = ops(f.m.main());
  f.run(f.m, "mark_elementwise_regions");
  CHECK_FALSE(f.run(f.m, "unfuse_elementwise_regions").changed);
  f.run.target.native.reset(static_cast<size_t>(OpKind::ElementwiseRegion));
  CHECK(count(f.run(f.m, "unfuse_elementwise_regions"), "regions_unfused") == 1);
  CHECK(ops(f.m.main()).find("elementwise_region") == std::string::npos);
  CHECK(ops(f.m.main()).size() == before.size());
  const Graph& g = f.m.main();
  for (NodeId n : g.nodes()) {
    if (g.op(n) == OpKind::Clamp) CHECK(g.attrs<ClampAttrs>(n).max == 2);
    if (g.op(n) == OpKind::LeakyRelu) CHECK(g.attrs<AlphaBetaAttrs>(n).alpha == 0.25);
    if (g.op(n) == OpKind::Lt) CHECK(g.dtype(g.result(n)) == DType::Bool);
  }
  CHECK(g.label(g.def(g.outputs()[0])) == "where_1");
}

TEST_CASE("regions of several results are unfused where kernels have one") {
  Module m;
  Builder b(m.main());
  FusionAttrs a{{{OpKind::Neg, DType::F32, {1, RegionStep::kNone, RegionStep::kNone}},
                 {OpKind::Add, DType::F32, {0, RegionStep::kStep, RegionStep::kNone}}},
                {0}};
  const NodeId n =
      b.create_node(OpKind::ElementwiseRegion,
                    std::vector{b.input("x", tensor_type(DType::F32, {8, 4})), b.input("row", tensor_type(DType::F32, {4}))}, a);
  for (size_t i = 0; i < 2; ++i) m.main().add_output(m.main().result(n, i), {});
  PassRun run;
  CHECK_FALSE(run(m, "unfuse_elementwise_regions").changed);
  run.target.integer_fusions = false;
  CHECK(run(m, "unfuse_elementwise_regions").changed);
  CHECK(ops(m.main()) == "input input neg add expand");
}

TEST_CASE("regions beyond the limits of the target are unfused") {
  Fixture f;
  f.run(f.m, "mark_elementwise_regions");
  f.run.target.region_max_steps = 2;
  CHECK(f.run(f.m, "unfuse_elementwise_regions").changed);
}

TEST_CASE("regions with a step that the target has no kernel for are unfused") {
  Fixture f;
  f.run(f.m, "mark_elementwise_regions");
  f.run.target.native.reset(static_cast<size_t>(OpKind::LeakyRelu));
  CHECK(f.run(f.m, "unfuse_elementwise_regions").changed);
}
