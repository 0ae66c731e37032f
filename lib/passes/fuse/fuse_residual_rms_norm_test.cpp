#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_residual_rms_norm";

ValueId rms_norm(Builder& b, ValueId x, std::string_view gamma = "gamma") {
  return b.create(OpKind::RmsNorm, {x, f32_param(b, gamma, {8})}, NormAttrs{1, 1e-6});
}

}  // namespace

TEST_CASE("fuse_residual_rms_norm: a decoder block's sum is read by the norm and by the next residual") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId sum = b.add(f32_input(b, "x", {3, 8}), f32_input(b, "r", {3, 8}));
    const ValueId next = b.add(sum, b.unary(OpKind::Tanh, rms_norm(b, sum)));
    return std::vector{rms_norm(b, next, "second")};
  });
  CHECK(r.left() == "fused_residual_rms_norm tanh fused_residual_rms_norm");
}

TEST_CASE("fuse_residual_rms_norm: the sum keeps its name as an output") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId sum = b.add(f32_input(b, "x", {3, 8}), f32_input(b, "r", {3, 8}));
    b.graph().set_value_name(sum, b.module().symbol("hidden"));
    return std::vector{sum, rms_norm(b, sum)};
  });
  CHECK(r.left() == "fused_residual_rms_norm");
  CHECK(r.after->text(r.after->main().value_name(r.after->main().outputs()[0])) == "hidden");
}

TEST_CASE("fuse_residual_rms_norm: other norms, broadcasts and targets without it") {
  const Rewrite broadcast(kPass, [](Builder& b) {
    return std::vector{rms_norm(b, b.add(f32_input(b, "x", {3, 8}), f32_input(b, "r", {3, 1})))};
  });
  CHECK(broadcast.left() == "add rms_norm");
  CHECK(broadcast.first_decline() == "broadcast");
  const auto plain = [](Builder& b) {
    return std::vector{rms_norm(b, b.add(f32_input(b, "x", {3, 8}), f32_input(b, "r", {3, 8})))};
  };
  const Rewrite none(kPass, plain, [](PassRun& r) { r.target.native.reset(static_cast<size_t>(OpKind::FusedResidualRmsNorm)); });
  CHECK(none.left() == "add rms_norm");
  CHECK_FALSE(Rewrite("fuse_residual_ln", plain).result.changed);
}
