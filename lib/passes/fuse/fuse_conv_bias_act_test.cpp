#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_conv_bias_act";

ValueId conv(Builder& b, ValueId x, std::string_view weight) {
  return b.create(
      OpKind::Conv, {x, f32_param(b, weight, {4, 4, 3, 3}), f32_param(b, "bias_" + std::string(weight), {4})},
      ConvAttrs{.strides = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .dilations = {1, 1}, .output_padding = {}});
}

}  // namespace

TEST_CASE("fuse_conv_bias_act: residual on either side and activation") {
  for (const bool left : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId x = f32_input(b, "x", {2, 4, 5, 5}), y = conv(b, x, "w");
      return std::vector{b.unary(OpKind::Relu, left ? b.add(x, y) : b.add(y, x))};
    });
    CHECK(r.left() == "fused_conv_bias_act");
    CHECK(r.run.decisions.at(0).members.size() == 3);
  }
}

TEST_CASE("fuse_conv_bias_act: a transposed convolution takes them as well") {
  const auto build = [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 4, 5, 5});
    const ConvAttrs a{.strides = {2, 2}, .pads_begin = {1, 1}, .pads_end = {1, 1}, .dilations = {1, 1}, .output_padding = {1, 1}};
    const ValueId y = b.create(OpKind::ConvTranspose, {x, f32_param(b, "w", {4, 6, 3, 3}), f32_param(b, "bias", {6})}, a);
    return std::vector{b.unary(OpKind::Tanh, b.add(f32_input(b, "skip", {2, 6, 10, 10}), y))};
  };
  CHECK(Rewrite(kPass, build).left() == "fused_conv_transpose_bias_act");
  const Rewrite lacking(kPass, build,
                        [](PassRun& r) { r.target.native.reset(static_cast<size_t>(OpKind::FusedConvTransposeBiasAct)); });
  CHECK(lacking.left() == "conv_transpose add tanh");
}

TEST_CASE("fuse_conv_bias_act: activations with parameters, symbolic sizes") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {b.dims().symbol("n"), 4, 5, 5});
    return std::vector{b.create(OpKind::Clamp, {conv(b, x, "w")}, ClampAttrs{0, 6})};
  });
  CHECK(r.left() == "fused_conv_bias_act");
  const Epilogue act = r.after->main().attrs<FusedConvAttrs>(r.find(OpKind::FusedConvBiasAct)).act;
  CHECK(act.op == OpKind::Clamp);
  CHECK(act.beta == 6);
}

TEST_CASE("fuse_conv_bias_act: two convolutions that are added: one takes the other as residual") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {1, 4, 5, 5});
    return std::vector{b.unary(OpKind::Relu, b.add(conv(b, x, "v"), conv(b, x, "w")))};
  });
  CHECK(r.left() == "conv fused_conv_bias_act");
}

TEST_CASE("fuse_conv_bias_act: what is read elsewhere, broadcast or unsupported stays") {
  const Rewrite output(kPass, [](Builder& b) {
    const ValueId y = conv(b, f32_input(b, "x", {1, 4, 5, 5}), "w");
    return std::vector{y, b.unary(OpKind::Relu, y)};
  });
  CHECK(output.left() == "conv relu");
  CHECK(output.first_decline() == "graph_output");
  const Rewrite broadcast(kPass, [](Builder& b) {
    return std::vector{b.add(conv(b, f32_input(b, "x", {1, 4, 5, 5}), "w"), f32_input(b, "r", {2, 4, 5, 5}))};
  });
  CHECK(broadcast.left() == "conv add");
  const Rewrite unsupported(
      kPass,
      [](Builder& b) {
        return std::vector{b.unary(OpKind::Mish, conv(b, f32_input(b, "x", {1, 4, 5, 5}), "w"))};
      },
      [](PassRun& r) { r.target.epilogues.reset(static_cast<size_t>(OpKind::Mish)); });
  CHECK(unsupported.left() == "conv mish");
  CHECK(unsupported.first_decline() == "epilogue_unsupported");
}

TEST_CASE("fuse_conv_bias_act: an activation behind moves comes before them, if nothing else reads what is moved") {
  for (const bool shared : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId y = conv(b, f32_input(b, "x", {2, 4, 5, 5}), "w"), rows = b.reshape(y, {2, 4, 25}),
                    moved = b.transpose(rows, {0, 2, 1});
      std::vector<ValueId> out{b.unary(OpKind::Gelu, moved)};
      if (shared) out.push_back(b.unary(OpKind::Neg, rows));
      return out;
    });
    CHECK(r.left() == (shared ? "conv reshape transpose gelu neg" : "fused_conv_bias_act reshape transpose"));
    if (!shared) CHECK(r.run.decisions.at(0).members.size() == 2);
  }
  const Rewrite lacking(
      kPass,
      [](Builder& b) {
        const ValueId y = conv(b, f32_input(b, "x", {2, 4, 5, 5}), "w");
        return std::vector{b.unary(OpKind::Gelu, b.transpose(y, {0, 2, 3, 1}))};
      },
      [](PassRun& run) { run.target.epilogues.reset(static_cast<size_t>(OpKind::Gelu)); });
  CHECK(lacking.left() == "conv transpose gelu");
  CHECK(lacking.run.decisions.at(0).reason == "epilogue_unsupported");
}
