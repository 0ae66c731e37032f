#include "support/conv_steps.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_integer_results";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

ValueId codes(Builder& b, std::string_view name, std::vector<Dim> dims) {
  return b.input(name, tensor_type(DType::U8, std::move(dims)));
}

// The sums in f32, times a number; or these as integers of 16 or 8 bits.
ValueId floats(Builder& b, int64_t groups = 0, DType to = DType::F32) {
  const auto steps = [&](OpKind op) {
    std::vector<RegionStep> all = {{op, DType::I32, {kNone, kNone, kNone}},
                                   {OpKind::Cast, DType::F32, {kStep, kNone, kNone}},
                                   {OpKind::Mul, DType::F32, {kStep | 1, 4, kNone}}};
    if (to == DType::U16) all.push_back({OpKind::Cast, to, {kStep | 2, kNone, kNone}});
    if (to == DType::U8) {
      all.push_back({OpKind::Clamp, DType::F32, {kStep | 2, kNone, kNone}, ClampAttrs{0, 255}});
      all.push_back({OpKind::Cast, to, {kStep | 3, kNone, kNone}});
    }
    return all;
  };
  const ValueId s = b.scalar(DType::F32, 0.01);
  if (groups == 0)
    return b.create(OpKind::FusedQMatMul, {codes(b, "x", {2, 3, 8}), codes(b, "w", {8, 6}), ValueId(), ValueId(), s},
                    FusionAttrs{steps(OpKind::QMatMul)});
  return b.create(OpKind::FusedQConv,
                  {codes(b, "x", {1, 4, 6, 6}), codes(b, "w", {4, Dim(4 / groups), 3, 3}), ValueId(), ValueId(), s},
                  test::conv_steps({{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, groups}, steps(OpKind::QConv)));
}

// Steps that divide by a number, or by `by`, round and clamp to 8 bits.
ValueId rounded(Builder& b, ValueId v, double scale, ValueId by = {}) {
  FusionAttrs a;
  a.steps = {{OpKind::Div, DType::F32, {0, 1, kNone}},
             {OpKind::Round, DType::F32, {kStep, kNone, kNone}},
             {OpKind::Clamp, DType::F32, {kStep | 1, kNone, kNone}, ClampAttrs{0, 255}},
             {OpKind::Cast, DType::U8, {kStep | 2, kNone, kNone}}};
  return b.create(OpKind::ElementwiseRegion, {v, by.valid() ? by : b.scalar(DType::F32, scale)}, a);
}

// A digit of 8 bits of a 16-bit integer.
ValueId digit(Builder& b, ValueId v, OpKind op, double operand) {
  FusionAttrs a;
  a.steps = {{op, DType::U16, {0, 1, kNone}}, {OpKind::Cast, DType::U8, {kStep, kNone, kNone}}};
  return b.create(OpKind::ElementwiseRegion, {v, b.scalar(DType::U16, operand)}, a);
}

void check(const Rewrite& r, std::string_view left, size_t results) {
  CHECK(r.left() == left);
  const Graph& g = r.after->main();
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::FusedQMatMul || g.op(n) == OpKind::FusedQConv) CHECK(g.result_count(n) == results);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("fuse_integer_results: digits of integers of 16 bits, with and without these") {
  for (const int64_t groups : {0, 1})
    for (const bool kept : {false, true})
      check(Rewrite(kPass,
                    [&](Builder& b) -> std::vector<ValueId> {
                      const ValueId y = floats(b, groups, DType::U16);
                      std::vector<ValueId> results = {digit(b, y, OpKind::Div, 256), digit(b, y, OpKind::BitAnd, 255)};
                      if (kept) results.push_back(y);
                      return results;
                    }),
            groups ? "fused_q_conv" : "fused_q_matmul", kept ? 3 : 2);
}

TEST_CASE("fuse_integer_results: floats and codes, of matmuls and convolutions") {
  for (const int64_t groups : {0, 1})
    check(Rewrite(kPass,
                  [&](Builder& b) -> std::vector<ValueId> {
                    const ValueId y = floats(b, groups);
                    return {b.unary(OpKind::Abs, y), rounded(b, y, 0.5), rounded(b, y, 0.03)};
                  }),
          groups ? "fused_q_conv abs" : "fused_q_matmul abs", 3);
}

TEST_CASE("fuse_integer_results: codes behind layout ops, and without the floats") {
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId y = floats(b), turned = b.transpose(b.reshape(y, {2, 3, 2, 3}), {0, 2, 1, 3});
                  return {rounded(b, turned, 0.5), b.unary(OpKind::Abs, turned), rounded(b, b.narrow(y, 2, 1, 4), 0.2)};
                }),
        "fused_q_matmul reshape transpose narrow reshape transpose abs", 3);
  check(Rewrite(kPass, [](Builder& b) -> std::vector<ValueId> { return {rounded(b, b.narrow(floats(b), 2, 1, 4), 0.2)}; }),
        "fused_q_matmul narrow", 1);
}

TEST_CASE("fuse_integer_results: codes by scales of slices, and of rows that are moved") {
  const auto scales = [](Builder& b, std::vector<int64_t> dims) {
    return b.add(f32_param(b, "scales", std::move(dims)), b.scalar(DType::F32, 4));
  };
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId y = floats(b);
                  return {b.unary(OpKind::Neg, y), rounded(b, b.narrow(b.narrow(y, 2, 1, 4), 1, 1, 2), 0, scales(b, {2, 4}))};
                }),
        "add expand concat expand expand concat fused_q_matmul narrow narrow neg", 2);
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId moved = b.reshape(b.transpose(b.reshape(floats(b), {2, 3, 1, 6}), {1, 0, 2, 3}), {3, 2, 6});
                  return {b.narrow(rounded(b, moved, 0, scales(b, {3, 1, 1})), 0, 1, 2)};
                }),
        "add expand reshape transpose reshape fused_q_matmul reshape transpose reshape narrow", 1);
  // Scales that vary along a last axis that moves, and those of each run.
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId y = floats(b);
                  return {
                      rounded(b, b.transpose(y, {0, 2, 1}), 0, scales(b, {3})),
                      rounded(b, b.reshape(y, {6, 6}), 0, b.unary(OpKind::Exp, b.input("s", tensor_type(DType::F32, {6, 1}))))};
                }),
        "fused_q_matmul add transpose elementwise_region exp reshape elementwise_region", 1);
}

TEST_CASE("fuse_integer_results: different columns are rounded by one result") {
  for (const bool apart : {true, false})
    check(Rewrite(kPass,
                  [&](Builder& b) -> std::vector<ValueId> {
                    const ValueId y = floats(b);
                    const ValueId scales = b.add(f32_param(b, "scales", {2}), b.scalar(DType::F32, 4));
                    return {b.unary(OpKind::Neg, y), rounded(b, b.narrow(y, 2, 3, 3), 0.2),
                            rounded(b, b.narrow(y, 2, apart ? 1 : 2, 2), 0, scales)};
                  }),
          apart ? "add expand reshape expand concat fused_q_matmul narrow narrow neg"
                : "add expand expand concat fused_q_matmul narrow narrow neg",
          apart ? 2 : 3);
}

TEST_CASE("fuse_integer_results: floats that a pair rounds, unless too little of them is read") {
  const auto pair = [](Builder& b, ValueId v, double scale) {
    FusionAttrs a;
    a.steps = {{OpKind::Div, DType::F32, {0, 1, kNone}},
               {OpKind::Round, DType::F32, {kStep, kNone, kNone}},
               {OpKind::Clamp, DType::F32, {kStep | 1, kNone, kNone}, ClampAttrs{0, 255}},
               {OpKind::Mul, DType::F32, {kStep | 2, 1, kNone}}};
    return b.create(OpKind::ElementwiseRegion, {v, b.scalar(DType::F32, scale)}, a);
  };
  for (const auto& [columns, launch_ns, fuses] : {std::tuple<int64_t, double, bool>{4, 0, true}, {1, 0, false}, {1, 50, true}})
    check(Rewrite(
              kPass,
              [&, size = columns](Builder& b) -> std::vector<ValueId> {
                const ValueId y = floats(b), slice = pair(b, b.narrow(y, 2, 1, size), 0.2);
                return {b.unary(OpKind::Abs, b.transpose(slice, {0, 2, 1})), b.unary(OpKind::Neg, y),
                        rounded(b, b.narrow(y, 2, 0, 3), 0.3)};
              },
              [ns = launch_ns](PassRun& run) { run.target.machine.launch_ns = ns; }),
          fuses ? "fused_q_matmul narrow narrow transpose abs neg"
                : "fused_q_matmul narrow narrow elementwise_region transpose abs neg",
          fuses ? 3 : 2);
}

TEST_CASE("fuse_integer_results: codes of slices by a scale for each row, and as many of several as fit") {
  const auto build = [](Builder& b) -> std::vector<ValueId> {
    const ValueId y = floats(b);
    std::vector<ValueId> out{b.unary(OpKind::Abs, y)};
    for (int64_t i = 0; i < 3; ++i) {
      const ValueId rows = b.add(f32_param(b, "rows" + std::to_string(i), {3, 1}), b.scalar(DType::F32, 4));
      out.push_back(rounded(b, b.narrow(y, 2, i, 4), 0, rows));
    }
    return out;
  };
  check(Rewrite(kPass, build), "add add add fused_q_matmul narrow narrow narrow abs", 4);
  const Rewrite few(kPass, build, [](PassRun& run) { run.target.region_max_inputs = 10; });
  CHECK(few.first_decline() != "operand_limit");
  same_results(*few.before, *few.after, 1);
}

TEST_CASE("fuse_integer_results: codes beside the floats of a norm region") {
  // A norm of groups with an activation, and a norm of rows that keeps its sum; codes behind a layout op, and of two scales.
  for (const bool keep : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "x", {2, 4, 6}), z = f32_input(b, "z", {2, 4, 6});
      FusionAttrs a;
      if (keep) {
        a = {{{OpKind::Add, DType::F32, {0, 1, kNone}}, {OpKind::RmsNorm, DType::F32, {kStep, kNone, kNone}, NormAttrs{2, 1e-6}}},
             {0}};
      } else {
        a.steps = {{OpKind::GroupNorm, DType::F32, {0, kNone, kNone}, GroupNormAttrs{2, 1e-5}},
                   {OpKind::Silu, DType::F32, {kStep, kNone, kNone}}};
      }
      const NodeId n = b.create_node(OpKind::NormRegion, keep ? std::vector{x, z} : std::vector{x}, a);
      const ValueId y = b.graph().result(n);
      std::vector<ValueId> results{b.unary(OpKind::Abs, y), rounded(b, y, 0.04), rounded(b, b.transpose(y, {0, 2, 1}), 0.02)};
      if (keep) results.push_back(b.unary(OpKind::Neg, b.graph().result(n, 1)));
      return results;
    });
    CHECK(r.left() == (keep ? "norm_region transpose abs neg" : "norm_region transpose abs"));
    const NodeId n = r.find(OpKind::NormRegion);
    REQUIRE(n.valid());
    CHECK(r.after->main().result_count(n) == (keep ? 4 : 3));
    for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
  }
}

TEST_CASE("fuse_integer_results: codes of a norm region that are quantized again") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    FusionAttrs a;
    a.steps = {{OpKind::RmsNorm, DType::F32, {0, kNone, kNone}, NormAttrs{2, 1e-6}},
               {OpKind::Div, DType::F32, {kStep, 1, kNone}},
               {OpKind::Round, DType::F32, {kStep | 1, kNone, kNone}},
               {OpKind::Clamp, DType::F32, {kStep | 2, kNone, kNone}, ClampAttrs{-128, 127}},
               {OpKind::Cast, DType::I8, {kStep | 3, kNone, kNone}}};
    const ValueId codes = b.create(OpKind::NormRegion, {f32_input(b, "x", {2, 4, 6}), num(b, 0.04)}, a);
    FusionAttrs region;
    region.steps = {{OpKind::Cast, DType::F32, {0, kNone, kNone}},
                    {OpKind::Mul, DType::F32, {kStep, 1, kNone}},
                    {OpKind::Div, DType::F32, {kStep | 1, 2, kNone}},
                    {OpKind::Round, DType::F32, {kStep | 2, kNone, kNone}},
                    {OpKind::Clamp, DType::F32, {kStep | 3, kNone, kNone}, ClampAttrs{-128, 127}},
                    {OpKind::Cast, DType::I8, {kStep | 4, kNone, kNone}}};
    return {b.transpose(codes, {0, 2, 1}), b.create(OpKind::ElementwiseRegion, {codes, num(b, 0.04), num(b, 0.03)}, region)};
  });
  CHECK(r.left() == "norm_region transpose");
  CHECK(r.after->main().result_count(r.find(OpKind::NormRegion)) == 2);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed, {0, 0});
}

TEST_CASE("fuse_integer_results: what stays") {
  const auto changes = [](const Rewrite::Build& build, const std::function<void(PassRun&)>& configure = {}) {
    return Rewrite(kPass, build, configure).result.changed;
  };
  const auto both = [](Builder& b, ValueId y, ValueId by) -> std::vector<ValueId> {
    return {b.unary(OpKind::Abs, y), rounded(b, y, 0.5, by)};
  };
  CHECK(changes([&](Builder& b) { return both(b, floats(b), f32_param(b, "s", {6})); }));
  // Single channels, a divisor computed later, and a target without the kernels.
  CHECK_FALSE(changes([&](Builder& b) { return both(b, floats(b, 4), {}); }));
  CHECK_FALSE(changes([&](Builder& b) {
    const ValueId y = floats(b);
    return both(b, y, b.unary(OpKind::Abs, f32_input(b, "s", {6})));
  }));
  CHECK_FALSE(
      changes([&](Builder& b) { return both(b, floats(b), {}); }, [](PassRun& run) { run.target.integer_fusions = false; }));
}

TEST_CASE("fuse_integer_results: codes beside the floats of elementwise nodes") {
  // The rounding reads the sum, or computes it again before or after it.
  for (const bool region : {false, true})
    for (const int again : {0, 1, 2}) {
      const auto build = [&](Builder& b) -> std::vector<ValueId> {
        const ValueId x = f32_input(b, "x", {2, 3, 8}), z = f32_input(b, "z", {3, 1});
        FusionAttrs sum{{{OpKind::Add, DType::F32, {0, 1, kNone}}, {OpKind::Relu, DType::F32, {kStep, kNone, kNone}}}};
        FusionAttrs codes = sum;
        codes.steps.push_back({OpKind::Div, DType::F32, {kStep | 1, 2, kNone}});
        codes.steps.push_back({OpKind::Clamp, DType::F32, {kStep | 2, kNone, kNone}, ClampAttrs{0, 255}});
        codes.steps.push_back({OpKind::Cast, DType::U8, {kStep | 3, kNone, kNone}});
        const auto rounds = [&] { return b.create(OpKind::ElementwiseRegion, {x, z, b.scalar(DType::F32, 0.03)}, codes); };
        if (!region) {
          const ValueId y = b.add(x, z);
          return {rounded(b, y, 0.02), y};
        }
        const ValueId before = again == 1 ? rounds() : ValueId();
        const ValueId y = b.create(OpKind::ElementwiseRegion, {x, z}, sum);
        const ValueId c = again == 0 ? rounded(b, y, 0.02) : again == 1 ? before : rounds();
        return {b.matmul(y, y, false, true), c};
      };
      const Rewrite r(kPass, build);
      CHECK(r.left() == (region ? "elementwise_region matmul" : "elementwise_region"));
      const NodeId n = r.find(OpKind::ElementwiseRegion);
      REQUIRE(n.valid());
      CHECK(r.after->main().result_count(n) == 2);
      for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
    }
}

TEST_CASE("fuse_integer_results: codes of one value by several scales") {
  const Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    const ValueId x = f32_input(b, "x", {2, 3, 8});
    return {rounded(b, x, 0.02), rounded(b, x, 0.5), b.unary(OpKind::Abs, x)};
  });
  CHECK(r.left() == "elementwise_region abs");
  same_results(*r.before, *r.after, 1);
}

TEST_CASE("fuse_integer_results: codes of one value beside floats that a pair rounds") {
  const auto pair = [](Builder& b, ValueId v) {
    FusionAttrs a;
    a.steps = {{OpKind::Div, DType::F32, {0, 1, kNone}},
               {OpKind::Round, DType::F32, {kStep, kNone, kNone}},
               {OpKind::Mul, DType::F32, {kStep | 1, 1, kNone}}};
    return b.create(OpKind::ElementwiseRegion, {v, b.scalar(DType::F32, 0.3)}, a);
  };
  for (const bool first : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "x", {2, 3, 8});
      const ValueId before = first ? pair(b, x) : ValueId();
      const ValueId c = rounded(b, x, 0.02, f32_param(b, "scale", {3, 1}));
      return {c, b.unary(OpKind::Abs, first ? before : pair(b, x)), rounded(b, x, 0.5)};
    });
    CHECK(r.left() == "elementwise_region abs");
    CHECK(r.after->main().result_count(r.find(OpKind::ElementwiseRegion)) == 3);
    for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
  }
}

TEST_CASE("fuse_integer_results: codes of a contraction that are dequantized, and quantized again") {
  const auto widened = [](Builder& b, ValueId v) {
    FusionAttrs a;
    a.steps = {{OpKind::Cast, DType::F32, {0, kNone, kNone}}, {OpKind::Mul, DType::F32, {kStep, 1, kNone}}};
    return b.create(OpKind::ElementwiseRegion, {v, b.scalar(DType::F32, 0.7)}, a);
  };
  for (const int64_t groups : {0, 1})
    for (const bool kept : {false, true})
      check(Rewrite(kPass,
                    [&](Builder& b) -> std::vector<ValueId> {
                      const ValueId y = floats(b, groups, DType::U8);
                      const ValueId x = widened(b, groups ? y : b.reshape(y, {2, 1, 3, 6}));
                      std::vector<ValueId> results = {b.unary(OpKind::Exp, x), rounded(b, x, 0.5)};
                      if (kept) results.push_back(y);
                      return results;
                    }),
            groups ? "fused_q_conv exp" : "fused_q_matmul reshape reshape exp", kept ? 3 : 2);
}

TEST_CASE("fuse_integer_results: elementwise nodes that stay") {
  // Roundings of another shape, of weights, and without a step of the sum stay.
  CHECK_FALSE(Rewrite(kPass, [](Builder& b) -> std::vector<ValueId> {
                const ValueId y = b.add(f32_input(b, "x", {8}), f32_input(b, "z", {8}));
                return {rounded(b, y, 0.5, f32_input(b, "s", {3, 1})), y};
              }).result.changed);
  CHECK_FALSE(Rewrite(kPass, [](Builder& b) -> std::vector<ValueId> {
                const ValueId y = b.add(f32_param(b, "x", {8}), f32_param(b, "z", {8}));
                return {rounded(b, y, 0.5), y};
              }).result.changed);
  CHECK_FALSE(Rewrite(kPass, [](Builder& b) -> std::vector<ValueId> {
                const ValueId x = f32_input(b, "x", {8});
                return {rounded(b, x, 0.5), b.unary(OpKind::Abs, x)};
              }).result.changed);
}

TEST_CASE("fuse_integer_results: not beyond the steps or operands of the target") {
  for (bool steps : {false, true}) {
    const Rewrite r(
        kPass,
        [&](Builder& b) -> std::vector<ValueId> {
          const ValueId y = floats(b);
          return {b.unary(OpKind::Abs, y), rounded(b, y, 0.5)};
        },
        [&](PassRun& run) { (steps ? run.target.region_max_steps : run.target.region_max_inputs) = 5; });
    CHECK_FALSE(r.result.changed);
    CHECK(r.first_decline() == (steps ? "step_limit" : "operand_limit"));
  }
}
