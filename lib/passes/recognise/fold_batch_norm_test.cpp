#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fold_batch_norm";

ValueId batch_norm(Builder& b, ValueId x, int64_t channels, int64_t axis = 1) {
  const ValueId variance = b.unary(OpKind::Abs, f32_param(b, "variance", {channels}));
  return b.create(
      OpKind::BatchNormInference,
      {x, f32_param(b, "gamma", {channels}), f32_param(b, "beta", {channels}), f32_param(b, "mu", {channels}), variance},
      NormAttrs{axis, 1e-3});
}

ConvAttrs unit(int64_t groups = 1) {
  return {
      .strides = {1, 1}, .pads_begin = {0, 0}, .pads_end = {0, 0}, .dilations = {1, 1}, .output_padding = {}, .groups = groups};
}

// Returns whether a convolution is the only node that depends on the input.
bool only_convolution(const Rewrite& r, OpKind conv) {
  const Graph& g = r.after->main();
  return g.op(g.def(g.outputs()[0])) == conv && !r.find(OpKind::BatchNormInference).valid() &&
         g.op(g.def(g.operand(r.find(conv), 0))) == OpKind::Input;
}

}  // namespace

TEST_CASE("fold_batch_norm: goes into convolutions with and without bias, grouped, transposed") {
  for (const bool bias : {false, true})
    for (const int64_t groups : {1, 2}) {
      const Rewrite r(kPass, [&](Builder& b) {
        const ValueId y = b.create(OpKind::Conv,
                                   {f32_input(b, "x", {2, 4, 5, 5}), f32_param(b, "w", {6, 4 / groups, 3, 3}),
                                    bias ? f32_param(b, "bias", {6}) : ValueId()},
                                   unit(groups));
        return std::vector{batch_norm(b, y, 6)};
      });
      CHECK(only_convolution(r, OpKind::Conv));
      CHECK(r.run.decisions.at(0).fused);
    }
  const Rewrite up(kPass, [&](Builder& b) {
    ConvAttrs a = unit();
    a.output_padding = {0, 0};
    return std::vector{
        batch_norm(b, b.create(OpKind::ConvTranspose, {f32_input(b, "x", {2, 4, 5, 5}), f32_param(b, "w", {4, 6, 3, 3})}, a), 6)};
  });
  CHECK(only_convolution(up, OpKind::ConvTranspose));
}

TEST_CASE("fold_batch_norm: the codes of dequantized weights stay") {
  for (const bool transposed : {false, true})
    for (const std::optional<int64_t> axis : {std::optional<int64_t>(), {transposed ? 1 : 0}, {transposed ? 0 : 1}})
      for (const bool zero : {false, true}) {
        const std::vector<int64_t> shape = transposed ? std::vector<int64_t>{4, 6, 3, 3} : std::vector<int64_t>{6, 4, 3, 3};
        const Rewrite r(kPass, [&](Builder& b) {
          std::vector<uint8_t> codes(6 * 4 * 9);
          for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 37);
          const std::vector<int64_t> dims = axis ? std::vector{shape[static_cast<size_t>(*axis)]} : std::vector<int64_t>();
          const size_t scales = axis ? static_cast<size_t>(dims[0]) : 1;
          const ValueId w =
              b.create(OpKind::Dequantize,
                       {b.constant(make_data(DType::I8, shape, codes)), f32_param(b, "s", {dims.begin(), dims.end()}),
                        zero ? b.constant(make_data(DType::I8, dims, std::vector<uint8_t>(scales, 3))) : ValueId()},
                       QuantAttrs{axis.value_or(0), 0, DType::F32, true});
          ConvAttrs a = unit();
          if (transposed) a.output_padding = {0, 0};
          const ValueId x = f32_input(b, "x", {2, 4, 5, 5});
          return std::vector{batch_norm(b, b.create(transposed ? OpKind::ConvTranspose : OpKind::Conv, {x, w}, a), 6)};
        });
        const Graph& g = r.after->main();
        const NodeId conv = r.find(transposed ? OpKind::ConvTranspose : OpKind::Conv);
        const bool other_axis = axis && *axis != (transposed ? 1 : 0);
        CHECK(g.op(g.def(g.operand(conv, 1))) == (other_axis ? OpKind::Mul : OpKind::Dequantize));
      }
}

TEST_CASE("fold_batch_norm: a convolution that others read keeps its value") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId y = b.create(OpKind::Conv, {f32_input(b, "x", {2, 4, 5, 5}), f32_param(b, "w", {6, 4, 3, 3})}, unit());
    return std::vector{batch_norm(b, y, 6), y};
  });
  CHECK(r.first_decline() == "multi_consumer");
  CHECK_FALSE(r.find(OpKind::BatchNormInference).valid());  // a scale and a shift
}

TEST_CASE("fold_batch_norm: alone it becomes a scale and a shift, on any axis") {
  for (const int64_t axis : {1, 3}) {
    const Rewrite r(kPass, [&](Builder& b) {
      return std::vector{batch_norm(b, f32_input(b, "x", {2, 4, b.dims().symbol("h"), 4}), 4, axis)};
    });
    CHECK(count(r.result, "scale_shift") == 1);
    CHECK_FALSE(r.find(OpKind::BatchNormInference).valid());
  }
}

TEST_CASE("fold_batch_norm: statistics known only at run time stay") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId v = f32_param(b, "v", {4});
    return std::vector{b.create(OpKind::BatchNormInference,
                                {f32_input(b, "x", {2, 4}), f32_input(b, "gamma", {4}), v, v, b.unary(OpKind::Abs, v)},
                                NormAttrs{1, 1e-3})};
  });
  CHECK_FALSE(r.result.changed);
}

TEST_CASE("fold_batch_norm: scale and shift of a product whose rows are one axis move before that Reshape") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId rows = b.reshape(b.matmul(f32_input(b, "x", {2, 3, 5}), f32_param(b, "w", {5, 4})), {6, 4});
    return std::vector{batch_norm(b, rows, 4)};
  });
  const Graph& g = r.after->main();
  const NodeId last = g.def(g.outputs()[0]);
  REQUIRE(g.op(last) == OpKind::Reshape);
  CHECK(g.op(g.def(g.operand(last, 0))) == OpKind::Add);
}
