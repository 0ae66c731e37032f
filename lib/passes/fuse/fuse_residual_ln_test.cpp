#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_residual_ln";

ValueId layer_norm(Builder& b, ValueId x, int64_t axis, std::vector<int64_t> dims) {
  return b.create(OpKind::LayerNorm, {x, f32_param(b, "gamma", dims), f32_param(b, "be", dims)}, NormAttrs{axis, 1e-5});
}

}  // namespace

TEST_CASE("fuse_residual_ln: post-norm, on any axis") {
  const Rewrite last(kPass, [](Builder& b) {
    return std::vector{layer_norm(b, b.add(f32_input(b, "x", {2, 3, 8}), f32_input(b, "r", {2, 3, 8})), 2, {8})};
  });
  CHECK(last.left() == "fused_residual_ln");
  CHECK(last.run.decisions.at(0).fused);
  const Rewrite two(kPass, [](Builder& b) {  // the axis is kept
    return std::vector{layer_norm(b, b.add(f32_input(b, "x", {2, 3, 8}), f32_input(b, "r", {2, 3, 8})), 1, {3, 8})};
  });
  CHECK(two.left() == "fused_residual_ln");
  CHECK(two.after->main().attrs<NormAttrs>(two.find(OpKind::FusedResidualLN)).axis == 1);
}

TEST_CASE("fuse_residual_ln: pre-norm reads the sum again, also where scale and shift are declared later") {
  const Rewrite r(kPass, [](Builder& b) {
    const Dim s = b.dims().symbol("s");
    const ValueId sum = b.add(f32_input(b, "x", {2, s, 8}), f32_input(b, "r", {2, s, 8}));
    const ValueId early = b.unary(OpKind::Exp, sum);
    return std::vector{early, b.add(layer_norm(b, sum, 2, {8}), sum), sum};
  });
  CHECK(r.left() == "fused_residual_ln exp add");
}

TEST_CASE("fuse_residual_ln: two norms of one sum: one is fused, the other reads its sum") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId sum = b.add(f32_input(b, "x", {2, 8}), f32_input(b, "r", {2, 8}));
    return std::vector{layer_norm(b, sum, 1, {8}),
                       b.create(OpKind::LayerNorm, {sum, f32_param(b, "other", {8})}, NormAttrs{1, 1e-6})};
  });
  CHECK(r.left() == "fused_residual_ln layer_norm");
}

TEST_CASE("fuse_residual_ln: a sum of different shapes or with a bias row is no residual") {
  const Rewrite broadcast(kPass, [](Builder& b) {
    return std::vector{layer_norm(b, b.add(f32_input(b, "x", {1, 1, 8}), f32_input(b, "r", {1, 5, 8})), 2, {8})};
  });
  CHECK(broadcast.left() == "add layer_norm");
  CHECK(broadcast.first_decline() == "broadcast");
  const Rewrite bias(kPass, [](Builder& b) {
    return std::vector{layer_norm(b, b.add(f32_input(b, "x", {2, 8}), f32_param(b, "row", {8})), 1, {8})};
  });
  CHECK(bias.left() == "add layer_norm");
  CHECK(bias.run.decisions.empty());
}

TEST_CASE("fuse_residual_ln: scale computed at run time after a sum that others read") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId sum = b.add(f32_input(b, "x", {2, 8}), f32_input(b, "r", {2, 8}));
    const ValueId gamma = b.reduce(ReduceOp::Max, sum, {0}, false);
    return std::vector{b.create(OpKind::LayerNorm, {sum, gamma}, NormAttrs{1, 1e-5})};
  });
  CHECK(r.left() == "add reduce layer_norm");
  CHECK(r.first_decline() == "runtime_scale");
}

TEST_CASE("fuse_residual_ln: 20,000 pre-norm blocks in one walk") {
  Module m;
  Builder b(m.main());
  ValueId x = f32_input(b, "x", {4, 4});
  const ValueId gamma = f32_param(b, "gamma", {4});
  for (int i = 0; i < 20000; ++i) {
    const ValueId sum = b.add(x, b.unary(OpKind::Tanh, x));
    x = b.add(sum, b.create(OpKind::LayerNorm, {sum, gamma}, NormAttrs{1, 1e-5}));
  }
  m.main().add_output(x, {});
  PassRun run;
  CHECK(count(run(m, kPass), "residual_ln") == 20000);
}
