#include "ir/region.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_norm_region";

ValueId norm(Builder& b, OpKind op, ValueId x, ValueId gamma = {}, ValueId beta = {}) {
  return b.create(op, {x, gamma, beta}, NormAttrs{2, 1e-5});
}
ValueId one_plus(Builder& b, ValueId v) { return b.add(v, num(b, 1)); }
const FusionAttrs& attrs(const Rewrite& r) { return r.after->main().attrs<FusionAttrs>(r.find(OpKind::NormRegion)); }

}  // namespace

TEST_CASE("fuse_norm_region: a norm that is scaled and shifted by values of each batch") {
  for (const OpKind op : {OpKind::LayerNorm, OpKind::RmsNorm}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId scale = one_plus(b, f32_input(b, "scale", {2, 1, 8}));
      const ValueId n = norm(b, op, f32_input(b, "x", {2, 5, 8}));
      FusionAttrs a;
      a.steps = {{OpKind::Mul, DType::F32, {0, 1, RegionStep::kNone}},
                 {OpKind::Add, DType::F32, {RegionStep::kStep, 2, RegionStep::kNone}}};
      return std::vector{b.create(OpKind::ElementwiseRegion, {n, scale, f32_input(b, "shift", {2, 1, 8})}, a)};
    });
    CHECK(r.left() == "add norm_region");
    CHECK(attrs(r).steps.size() == 3);
    CHECK_FALSE(keeps_operand(attrs(r)));
  }
}

TEST_CASE("fuse_norm_region: a gated residual before the norm, whose sum others read, with scale and shift of weights") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 5, 8}), y = f32_input(b, "y", {2, 5, 8});
    FusionAttrs a;
    a.steps = {{OpKind::Mul, DType::F32, {1, 2, RegionStep::kNone}},
               {OpKind::Add, DType::F32, {0, RegionStep::kStep, RegionStep::kNone}}};
    const ValueId s = b.create(OpKind::ElementwiseRegion, {x, y, f32_input(b, "gate", {2, 1, 8})}, a);
    const ValueId n = norm(b, OpKind::LayerNorm, s, f32_param(b, "gamma", {8}), f32_param(b, "beta", {8}));
    return std::vector{b.add(s, b.matmul(n, f32_param(b, "w", {8, 8})))};
  });
  CHECK(r.left() == "norm_region matmul add");
  CHECK(keeps_operand(attrs(r)));
  CHECK(attrs(r).steps.size() == 5);
  CHECK(r.run.decisions.at(0).members.size() == 2);
}

TEST_CASE("fuse_norm_region: a norm that one reader narrows and others read") {
  const auto graph = [](OpKind norm, bool early) {
    return [=](Builder& b) {
      const ValueId x = f32_input(b, "x", {2, 5, 8}), y = f32_input(b, "y", {2, 5, 8});
      const NodeId n = b.create_node(norm, std::vector<ValueId>{x, y, ValueId(), f32_param(b, "gamma", {8})}, NormAttrs{2, 1e-5});
      const ValueId v = b.graph().result(n, 0);
      const ValueId before = early ? b.matmul(v, f32_param(b, "u", {8, 8})) : ValueId();
      FusionAttrs a;
      a.steps = {{OpKind::Div, DType::F32, {0, 1, RegionStep::kNone}},
                 {OpKind::Round, DType::F32, {RegionStep::kStep, RegionStep::kNone, RegionStep::kNone}},
                 {OpKind::Cast, DType::I8, {RegionStep::kStep | 1, RegionStep::kNone, RegionStep::kNone}}};
      const ValueId codes = b.create(OpKind::ElementwiseRegion, {v, num(b, 0.125)}, a);
      const ValueId next = early ? before : b.matmul(v, f32_param(b, "u", {8, 8}));
      return std::vector{codes, next, b.matmul(b.graph().result(n, 1), f32_param(b, "w", {8, 8}))};
    };
  };
  for (const OpKind norm : {OpKind::FusedResidualLN, OpKind::FusedResidualRmsNorm}) {
    const Rewrite r(kPass, graph(norm, false));
    CHECK(r.left() == "norm_region matmul matmul");
    CHECK(keeps_operand(attrs(r)));
    CHECK(attrs(r).also.back() == 2);
    const Rewrite early(kPass, graph(norm, true));
    CHECK_FALSE(early.result.changed);
    CHECK(early.first_decline() == "read_before");
  }
}

TEST_CASE("fuse_norm_region: a norm gives the codes of several quantizations, and what others read") {
  for (const bool floats : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId y = norm(b, OpKind::LayerNorm, f32_input(b, "x", {2, 5, 8}), f32_param(b, "gamma", {8}), {});
      const auto codes = [&](double scale, DType t) {
        FusionAttrs a;
        a.steps = {{OpKind::Div, DType::F32, {0, 1, RegionStep::kNone}},
                   {OpKind::Round, DType::F32, {RegionStep::kStep, RegionStep::kNone, RegionStep::kNone}},
                   {OpKind::Clamp, DType::F32, {RegionStep::kStep | 1, RegionStep::kNone, RegionStep::kNone}, ClampAttrs{0, 100}},
                   {OpKind::Cast, t, {RegionStep::kStep | 2, RegionStep::kNone, RegionStep::kNone}}};
        return b.create(OpKind::ElementwiseRegion, {y, num(b, scale)}, a);
      };
      std::vector<ValueId> all{codes(0.125, DType::I8), codes(0.02, DType::U8), codes(0.5, DType::I8)};
      if (floats) all.push_back(b.matmul(y, f32_param(b, "w", {8, 8})));
      return all;
    });
    CHECK(r.left() == (floats ? "norm_region matmul" : "norm_region"));
    CHECK(attrs(r).also.size() == (floats ? 3 : 2));
  }
}

TEST_CASE("fuse_norm_region: GroupNorm and what activates it, also on symbolic sizes") {
  for (const bool symbolic : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId x = f32_input(b, "x", {2, 4, symbolic ? b.dims().symbol("h") : Dim(3), 3});
      const ValueId n =
          b.create(OpKind::GroupNorm, {x, f32_param(b, "gamma", {4}), f32_param(b, "beta", {4})}, GroupNormAttrs{2, 1e-5});
      return std::vector{b.unary(OpKind::Silu, n)};
    });
    CHECK(r.left() == "reshape reshape norm_region");
  }
}

TEST_CASE("fuse_norm_region: a fused residual norm takes what comes before and after") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 5, 8}), y = b.mul(f32_input(b, "y", {2, 5, 8}), f32_input(b, "gate", {2, 1, 8}));
    const NodeId n = b.create_node(OpKind::FusedResidualRmsNorm,
                                   std::vector<ValueId>{x, y, ValueId(), f32_param(b, "gamma", {8})}, NormAttrs{2, 1e-5});
    const ValueId z = b.unary(OpKind::Relu, b.graph().result(n, 0));
    return std::vector{z, b.unary(OpKind::Exp, b.graph().result(n, 1))};
  });
  CHECK(r.left() == "norm_region exp");
  CHECK(r.run.decisions.at(0).members.size() == 3);
}

TEST_CASE("fuse_norm_region: a sum that is read before the shift is known, or outputs, keep their values") {
  const Rewrite early(kPass, [](Builder& b) {
    const ValueId s = b.mul(f32_input(b, "x", {2, 5, 8}), f32_input(b, "g", {2, 5, 8}));
    const ValueId n = norm(b, OpKind::LayerNorm, s);
    const ValueId shift = b.reduce(ReduceOp::Max, s, {1}, true);
    return std::vector{b.add(n, shift), s};
  });
  CHECK(early.left() == "norm_region reduce add");
  CHECK(early.first_decline() == "read_before");
  const Rewrite output(kPass, [](Builder& b) {
    const ValueId n = norm(b, OpKind::LayerNorm, f32_input(b, "x", {2, 5, 8}));
    return std::vector{n, b.unary(OpKind::Relu, n)};
  });
  CHECK_FALSE(output.result.changed);
}

TEST_CASE("fuse_norm_region: other sizes, other types and other limits stay") {
  const Rewrite larger(kPass, [](Builder& b) {
    return std::vector{b.add(norm(b, OpKind::LayerNorm, f32_input(b, "x", {1, 5, 8})), f32_input(b, "y", {2, 5, 8}))};
  });
  CHECK_FALSE(larger.result.changed);
  const auto build = [](Builder& b) {
    return std::vector{b.mul(norm(b, OpKind::LayerNorm, f32_input(b, "x", {2, 5, 8})), f32_input(b, "y", {2, 5, 8}))};
  };
  CHECK(Rewrite(kPass, build, [](PassRun& r) { r.target.region_max_inputs = 1; }).first_decline() == "operand_limit");
  CHECK(Rewrite(kPass, build, [](PassRun& r) { r.target.region_max_steps = 1; }).first_decline() == "step_limit");
  CHECK_FALSE(
      Rewrite(kPass, build, [](PassRun& r) { r.target.native.reset(static_cast<size_t>(OpKind::NormRegion)); }).result.changed);
}

TEST_CASE("fuse_norm_region: few rows would leave most of the target idle, and the times say so") {
  const auto fused_rows = [](int64_t rows) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId n = b.create(OpKind::LayerNorm, {f32_input(b, "x", {rows, 1 << 15})}, NormAttrs{1, 1e-5});
      return std::vector{b.unary(OpKind::Gelu, n)};
    });
    if (!r.result.changed) {
      CHECK(r.first_decline() == "cost");
      CHECK(r.run.decisions.at(0).detail.find(" ns fused, ") != std::string::npos);
    }
    return r.result.changed;
  };
  CHECK_FALSE(fused_rows(1));
  CHECK(fused_rows(16));
}

TEST_CASE("fuse_norm_region: scale and mask before a softmax, and what follows it") {
  for (const int64_t axis : {3, 2}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId scores = f32_input(b, "q", {2, 4, 5, 8}), mask = f32_input(b, "mask", {2, 1, 5, 8});
      FusionAttrs a;
      a.steps = {{OpKind::Mul, DType::F32, {0, 1, RegionStep::kNone}},
                 {OpKind::Add, DType::F32, {RegionStep::kStep, 2, RegionStep::kNone}}};
      const ValueId masked = b.create(OpKind::ElementwiseRegion, {scores, num(b, 0.125), mask}, a);
      const ValueId p = b.create(OpKind::Softmax, {masked}, AxisAttrs{axis});
      return std::vector{b.matmul(b.mul(p, f32_input(b, "keep", {2, 4, 5, 8})), f32_input(b, "v", {2, 4, 8, 3}))};
    });
    if (axis == 2) {
      CHECK(r.left() == "elementwise_region softmax mul matmul");
      continue;
    }
    CHECK(r.left() == "norm_region matmul");
    CHECK(norm_axis(attrs(r).steps[last_norm_step(attrs(r).steps)]) == 3);
    CHECK(r.run.decisions.at(0).pattern == "softmax_region");
    CHECK(r.run.decisions.at(0).members.size() == 3);
  }
}

TEST_CASE("fuse_norm_region: a norm, the residual that it is added to, and the norm of the sum") {
  for (const bool symbolic : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const Dim rows = symbolic ? b.dims().symbol("rows") : Dim(5);
      const ValueId n = norm(b, OpKind::RmsNorm, f32_input(b, "x", {2, rows, 8}), f32_param(b, "inner", {8}));
      const NodeId next =
          b.create_node(OpKind::FusedResidualRmsNorm,
                        std::vector<ValueId>{f32_input(b, "residual", {2, rows, 8}), n, ValueId(), f32_param(b, "outer", {8})},
                        NormAttrs{2, 1e-5});
      return std::vector{b.matmul(b.graph().result(next, 0), f32_param(b, "w", {8, 8})), b.graph().result(next, 1)};
    });
    CHECK(r.left() == "norm_region matmul");
    CHECK(keeps_operand(attrs(r)));
    CHECK(attrs(r).steps.size() == 5);
    CHECK(r.run.decisions.at(0).members.size() == 2);
  }
}

TEST_CASE("fuse_norm_region: norms of norms, of which others read one") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId first =
        norm(b, OpKind::LayerNorm, f32_input(b, "x", {2, 5, 8}), f32_param(b, "g", {8}), f32_param(b, "h", {8}));
    const ValueId second = norm(b, OpKind::RmsNorm, b.mul(first, f32_input(b, "gate", {2, 1, 8})));
    const ValueId third = norm(b, OpKind::LayerNorm, second, f32_param(b, "k", {8}));
    return std::vector{b.matmul(third, f32_param(b, "w", {8, 8})), b.matmul(second, f32_param(b, "v", {8, 8}))};
  });
  CHECK(r.left() == "norm_region matmul matmul");
  CHECK(keeps_operand(attrs(r)));
  CHECK(r.run.decisions.size() == 3);
}

TEST_CASE("fuse_norm_region: norms of other rows, of what others read, and more than fit stay") {
  const auto chain = [](int64_t axis) {
    return [=](Builder& b) {
      const ValueId first = norm(b, OpKind::LayerNorm, f32_input(b, "x", {2, 5, 8}), f32_param(b, "g", {8}));
      return std::vector{b.create(OpKind::LayerNorm, {first}, NormAttrs{axis, 1e-5})};
    };
  };
  CHECK(Rewrite(kPass, chain(2)).left() == "norm_region");
  CHECK_FALSE(Rewrite(kPass, chain(1)).result.changed);
  CHECK(Rewrite(kPass, chain(2), [](PassRun& r) { r.target.region_max_steps = 2; }).first_decline() == "step_limit");
  const Rewrite kept(kPass, [](Builder& b) {
    const NodeId first =
        b.create_node(OpKind::FusedResidualLN, std::vector<ValueId>{f32_input(b, "x", {2, 5, 8}), f32_input(b, "y", {2, 5, 8})},
                      NormAttrs{2, 1e-5});
    return std::vector{norm(b, OpKind::LayerNorm, b.graph().result(first, 0)), b.graph().result(first, 1)};
  });
  CHECK(kept.left() == "fused_residual_ln layer_norm");
  CHECK(kept.first_decline() == "results");
  // If the norm does not fit, the elementwise step is fused alone.
  const Rewrite less(
      kPass,
      [](Builder& b) {
        const ValueId first =
            norm(b, OpKind::LayerNorm, f32_input(b, "x", {2, 5, 8}), f32_param(b, "g", {8}), f32_param(b, "h", {8}));
        return std::vector{b.unary(OpKind::Relu, norm(b, OpKind::LayerNorm, first))};
      },
      [](PassRun& r) { r.target.region_max_steps = 4; });
  CHECK(less.left() == "layer_norm norm_region");
  CHECK(less.first_decline() == "step_limit");
}

TEST_CASE("fuse_norm_region: beyond the limit, a norm takes what is before it alone") {
  const auto build = [](Builder& b) -> std::vector<ValueId> {
    FusionAttrs before, after;
    before.steps = {{OpKind::Exp, DType::F32, {0, RegionStep::kNone, RegionStep::kNone}}};
    after.steps.assign(3, {OpKind::Neg, DType::F32, {0, RegionStep::kNone, RegionStep::kNone}});
    for (size_t i = 1; i < after.steps.size(); ++i) after.steps[i].args[0] = static_cast<uint16_t>(RegionStep::kStep | (i - 1));
    const ValueId x = b.create(OpKind::ElementwiseRegion, {f32_input(b, "x", {64, 32})}, before);
    const ValueId y = b.create(OpKind::LayerNorm, {x, {}, {}}, NormAttrs{1, 1e-5});
    return {b.create(OpKind::ElementwiseRegion, {y}, after)};
  };
  CHECK(Rewrite(kPass, build).left() == "norm_region");
  CHECK(Rewrite(kPass, build, [](PassRun& r) { r.target.region_max_steps = 4; }).left() == "norm_region elementwise_region");
}
