#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_integer_matmul";

ValueId codes(Builder& b, std::string_view name, std::vector<Dim> dims) {
  return b.input(name, tensor_type(DType::U8, std::move(dims)));
}

ValueId sums(Builder& b) { return b.create(OpKind::QMatMul, {codes(b, "x", {5, 8}), codes(b, "w", {8, 6}), codes(b, "z", {})}); }
ValueId convolved(Builder& b) {
  return b.create(OpKind::QConv, {codes(b, "x", {1, 4, 6, 6}), codes(b, "w", {3, 4, 3, 3})},
                  ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, 1});
}

// Steps in the form of mark_elementwise_regions: (float(x) * y) + z.
ValueId region(Builder& b, ValueId x, ValueId y, ValueId z) {
  constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;
  FusionAttrs a;
  a.steps = {{OpKind::Cast, DType::F32, {0, kNone, kNone}},
             {OpKind::Mul, DType::F32, {kStep, 1, kNone}},
             {OpKind::Add, DType::F32, {kStep | 1, 2, kNone}}};
  return b.create(OpKind::ElementwiseRegion, {x, y, z}, a);
}

}  // namespace

TEST_CASE("fuse_integer_matmul: the steps behind a product") {
  Rewrite r(kPass, [](Builder& b) { return std::vector{region(b, sums(b), f32_input(b, "s", {6}), f32_input(b, "r", {5, 6}))}; });
  CHECK(r.left() == "fused_q_matmul");
  const NodeId n = r.find(OpKind::FusedQMatMul);
  const Graph& g = r.after->main();
  CHECK(g.operands(n).size() == 6);
  CHECK_FALSE(g.operand(n, 3).valid());
  CHECK(g.attrs<FusionAttrs>(n).steps.size() == 4);
  CHECK(r.run.decisions.at(0).fused);
}

TEST_CASE("fuse_integer_matmul: a single elementwise node, and a convolution with values of channels") {
  Rewrite one(kPass, [](Builder& b) { return std::vector{b.cast(sums(b), DType::F32)}; });
  CHECK(one.left() == "fused_q_matmul");
  Rewrite conv(kPass, [](Builder& b) {
    return std::vector{region(b, convolved(b), f32_input(b, "s", {3, 1, 1}), f32_input(b, "r", {1, 3, 6, 6}))};
  });
  CHECK(conv.left() == "fused_q_conv");
  Rewrite single(kPass, [](Builder& b) {
    const ValueId x = b.create(OpKind::QConv, {codes(b, "x", {1, 4, 1, 1}), codes(b, "w", {3, 4, 1, 1})},
                               ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1});
    return std::vector{region(b, x, f32_input(b, "s", {}), f32_input(b, "r", {1, 3, 1, 1}))};
  });
  CHECK(single.left() == "fused_q_conv");
}

TEST_CASE("fuse_integer_matmul: sums that others read stay") {
  Rewrite r(kPass, [](Builder& b) {
    const ValueId s = sums(b);
    return std::vector{b.cast(s, DType::F32), s};
  });
  CHECK(r.left() == "q_matmul cast");
  CHECK(r.first_decline() == "multi_consumer");
}

TEST_CASE("fuse_integer_matmul: steps of a larger shape, or along some of the positions, stay") {
  Rewrite larger(kPass, [](Builder& b) {
    return std::vector{region(b, sums(b), f32_input(b, "s", {6}), f32_input(b, "r", {2, 5, 6}))};
  });
  CHECK(larger.left() == "q_matmul elementwise_region");
  CHECK(larger.first_decline() == "shape");
  Rewrite rows(kPass, [](Builder& b) {
    return std::vector{region(b, convolved(b), f32_input(b, "s", {3, 1, 1}), f32_input(b, "r", {6, 1}))};
  });
  CHECK(rows.left() == "q_conv elementwise_region");
  CHECK(rows.first_decline() == "shape");
}

TEST_CASE("fuse_integer_matmul: not beyond the steps or operands of the target") {
  for (bool steps : {false, true}) {
    Rewrite r(
        kPass,
        [](Builder& b) {
          return std::vector{region(b, sums(b), f32_input(b, "s", {6}), f32_input(b, "r", {5, 6}))};
        },
        [&](PassRun& run) { (steps ? run.target.region_max_steps : run.target.region_max_inputs) = 3; });
    CHECK(r.left() == "q_matmul elementwise_region");
    CHECK(r.first_decline() == (steps ? "step_limit" : "operand_limit"));
  }
}
