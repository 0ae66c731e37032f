#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_matmul_bias_act";

// act(x*w + bias), with the bias on the left or right.
Rewrite::Build linear(std::vector<int64_t> bias, OpKind act = OpKind::Gelu, bool left = false, std::vector<Dim> x = {2, 3, 8}) {
  return [=](Builder& b) {
    const ValueId y = b.matmul(f32_input(b, "x", x), f32_param(b, "w", {8, 4})), c = f32_param(b, "bias", bias);
    return std::vector{b.unary(act, left ? b.add(c, y) : b.add(y, c))};
  };
}

}  // namespace

TEST_CASE("fuse_matmul_bias_act: bias rows of any rank and all activations") {
  CHECK(Rewrite(kPass, linear({4})).left() == "fused_matmul_bias_act");
  CHECK(Rewrite(kPass, linear({1}, OpKind::Relu, true)).left() == "fused_matmul_bias_act");
  CHECK(Rewrite(kPass, linear({1, 1, 4}, OpKind::Tanh, true)).left() == "reshape fused_matmul_bias_act");
  const Rewrite r(kPass, linear({4}, OpKind::GeluApprox));
  REQUIRE(r.run.decisions.size() == 1);
  CHECK(r.run.decisions[0].members.size() == 3);
  CHECK(r.run.decisions[0].detail == "gelu_approx");
  CHECK(r.after->main().attrs<FusedMatMulAttrs>(r.find(OpKind::FusedMatMulBiasAct)).act.op == OpKind::GeluApprox);
}

TEST_CASE("fuse_matmul_bias_act: symbolic rows and columns") {
  const Rewrite r(kPass, [](Builder& b) {
    const Dim n = b.dims().symbol("n");
    const ValueId y = b.matmul(f32_input(b, "x", {b.dims().symbol("s"), 8}), b.input("w", tensor_type(DType::F32, {8, n})));
    return std::vector{b.unary(OpKind::Relu, b.add(y, f32_input(b, "bias", {n})))};
  });
  CHECK(r.left() == "fused_matmul_bias_act");
}

TEST_CASE("fuse_matmul_bias_act: residual of the same shape, with bias and activation") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId y = b.matmul(f32_input(b, "x", {3, 8}), f32_param(b, "w", {8, 4}));
    return std::vector{b.unary(OpKind::Relu, b.add(f32_input(b, "r", {3, 4}), b.add(y, f32_param(b, "bias", {4}))))};
  });
  CHECK(r.left() == "fused_matmul_bias_act");
}

TEST_CASE("fuse_matmul_bias_act: a reshape between the product and what follows is crossed, the bias kept") {
  for (const bool wide_bias : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      ValueId y = b.matmul(f32_input(b, "x", {6, 8}), f32_param(b, "w", {8, 4}));
      if (!wide_bias) y = b.add(y, f32_param(b, "bias", {4}));
      y = b.reshape(y, {2, 3, 4});
      if (wide_bias) y = b.add(y, f32_param(b, "bias", {1, 1, 4}));
      return std::vector{b.unary(OpKind::Relu, b.add(y, f32_input(b, "r", {2, 3, 4})))};
    });
    CHECK(r.left() == (wide_bias ? "reshape reshape fused_matmul_bias_act reshape" : "reshape fused_matmul_bias_act reshape"));
  }
}

TEST_CASE("fuse_matmul_bias_act: an activation behind moves comes before them") {
  const auto build = [](bool bias, bool shared) {
    return [=](Builder& b) {
      ValueId y = b.matmul(f32_input(b, "x", {2, 6, 8}), f32_param(b, "w", {8, 4}));
      if (bias) y = b.add(y, f32_param(b, "bias", {4}));
      const ValueId moved = b.transpose(b.reshape(y, {2, 3, 2, 4}), {0, 2, 1, 3});
      std::vector out{b.unary(OpKind::Tanh, moved)};
      if (shared) out.push_back(b.unary(OpKind::Neg, moved));
      return out;
    };
  };
  for (const bool bias : {false, true}) {
    const Rewrite r(kPass, build(bias, false));
    CHECK(r.left() == "fused_matmul_bias_act reshape transpose");
    CHECK(r.run.decisions.at(0).members.size() == (bias ? 3 : 2));
  }
  const Rewrite shared(kPass, build(false, true));
  CHECK(shared.left() == "matmul reshape transpose tanh neg");
  CHECK(shared.first_decline() == "multi_consumer");
}

namespace {

// x*w + bias reshaped to an image and added to r; `act` follows directly or after a further layout op.
Rewrite::Build image_sum(int64_t size, bool act = false, bool behind = false, bool shared = false) {
  return [=](Builder& b) {
    const ValueId y = b.matmul(f32_input(b, "x", {2, size, size, 8}), f32_param(b, "w", {8, 4}));
    const ValueId image = b.transpose(b.add(y, f32_param(b, "bias", {4})), {0, 3, 1, 2});
    std::vector out{b.add(f32_input(b, "r", {2, 4, size, size}), image)};
    if (behind) out[0] = b.reshape(out[0], {2, 4, size * size});
    if (act) out[0] = b.unary(OpKind::Relu, out[0]);
    if (shared) out.push_back(b.unary(OpKind::Neg, image));
    return out;
  };
}

}  // namespace

TEST_CASE("fuse_matmul_bias_act: a sum in another order of axes is made where it lies") {
  constexpr std::string_view kMade = "transpose fused_matmul_bias_act transpose";
  const Rewrite r(kPass, image_sum(4));
  CHECK(r.left() == kMade);
  CHECK(r.run.decisions.at(1).members.size() == 2);
  CHECK(Rewrite(kPass, image_sum(4, true)).left() == kMade);
  CHECK(Rewrite(kPass, image_sum(4, true, true)).left() == std::string(kMade) + " reshape");
  const auto few = Rewrite(kPass, image_sum(3));
  CHECK(few.left() == "fused_matmul_bias_act transpose add");
  CHECK(few.first_decline() == "layout");
  CHECK(Rewrite(kPass, image_sum(4, false, false, true)).left() == "fused_matmul_bias_act transpose add neg");
  const auto stays = Rewrite(kPass, image_sum(4), [](PassRun& run) { run.target.strides = false; });
  CHECK(stays.first_decline() == "layout");
}

TEST_CASE("fuse_matmul_bias_act: a sum of split rows is made by a product with codes as well") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId y = CodesOf{}(b, f32_input(b, "x", {6, 8}));
    return std::vector{b.add(b.reshape(y, {2, 3, 2, 2}), f32_input(b, "r", {2, 3, 2, 2}))};
  });
  CHECK(r.left() == "reshape dequant_matmul reshape");
}

TEST_CASE("fuse_matmul_bias_act: a product or a sum that is an output keeps its value") {
  const Rewrite product(kPass, [](Builder& b) {
    const ValueId y = b.matmul(f32_input(b, "x", {3, 8}), f32_param(b, "w", {8, 4}));
    return std::vector{y, b.add(y, f32_param(b, "bias", {4}))};
  });
  CHECK(product.left() == "matmul add");
  CHECK(product.first_decline() == "multi_consumer");
  const Rewrite sum(kPass, [](Builder& b) {
    const ValueId y = b.add(b.matmul(f32_input(b, "x", {3, 8}), f32_param(b, "w", {8, 4})), f32_param(b, "bias", {4}));
    return std::vector{y, b.unary(OpKind::Relu, y)};
  });
  CHECK(sum.left() == "fused_matmul_bias_act relu");
  CHECK(sum.first_decline() == "graph_output");
}

TEST_CASE("fuse_matmul_bias_act: a sum that is larger than the product stays") {
  const Rewrite columns(kPass, [](Builder& b) {
    return std::vector{b.add(b.matmul(f32_input(b, "x", {4, 8}), f32_param(b, "w", {8, 1})), f32_param(b, "bias", {3}))};
  });
  CHECK(columns.left() == "matmul add");
  const Rewrite batch(kPass, [](Builder& b) {
    return std::vector{b.add(b.matmul(f32_input(b, "x", {4, 8}), f32_param(b, "w", {8, 4})), f32_input(b, "r", {2, 4, 4}))};
  });
  CHECK(batch.left() == "matmul add");
  CHECK(batch.first_decline() == "bias_shape");
  const Rewrite column(kPass, [](Builder& b) {  // one number per row is no bias
    return std::vector{b.add(b.matmul(f32_input(b, "x", {4, 8}), f32_param(b, "w", {8, 4})), f32_param(b, "bias", {4, 1}))};
  });
  CHECK(column.left() == "matmul add");
}

TEST_CASE("fuse_matmul_bias_act: integers stay, and what the target lacks") {
  const Rewrite ints(kPass, [](Builder& b) {
    const ValueId y = b.matmul(b.input("x", tensor_type(DType::I32, {3, 8})), b.input("w", tensor_type(DType::I32, {8, 4})));
    return std::vector{b.add(y, b.input("bias", tensor_type(DType::I32, {4})))};
  });
  CHECK(ints.left() == "matmul add");
  const Rewrite no_gelu(kPass, linear({4}), [](PassRun& r) { r.target.epilogues.reset(static_cast<size_t>(OpKind::Gelu)); });
  CHECK(no_gelu.left() == "fused_matmul_bias_act gelu");
  CHECK(no_gelu.first_decline() == "epilogue_unsupported");
  const Rewrite none(kPass, linear({4}),
                     [](PassRun& r) { r.target.native.reset(static_cast<size_t>(OpKind::FusedMatMulBiasAct)); });
  CHECK_FALSE(none.result.changed);
}

TEST_CASE("fuse_matmul_bias_act: 30,000 layers in one walk") {
  Module m;
  Builder b(m.main());
  ValueId x = f32_input(b, "x", {4, 4});
  const ValueId w = f32_param(b, "w", {4, 4}), c = f32_param(b, "c", {4});
  for (int i = 0; i < 30000; ++i) x = b.unary(OpKind::Relu, b.add(b.matmul(x, w), c));
  m.main().add_output(x, {});
  PassRun run;
  CHECK(count(run(m, kPass), "matmul_bias_act") == 30000);
}
