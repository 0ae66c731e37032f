#include "passes/passes.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_rounded_result";

ValueId rounded(Builder& b, ValueId v, DType t, double zero, std::vector<int64_t> shape = {}) {
  const ValueId z = t == DType::U8 ? b.constant(make_data(t, shape, std::vector<uint8_t>{static_cast<uint8_t>(zero)}))
                                   : b.constant(make_data(t, shape, std::vector<int8_t>{static_cast<int8_t>(zero)}));
  // Small steps, so that both ends saturate.
  return b.create(OpKind::Quantize, {v, b.constant(make_data(DType::F32, shape, std::vector<float>{0.004F})), z},
                  QuantAttrs{0, 0, t, true});
}
ValueId attended(Builder& b) {
  const AttentionAttrs a{
      .num_heads = 2, .num_kv_heads = 2, .layout = AttentionLayout::Packed, .out_layout = AttentionLayout::Packed};
  return b.create(OpKind::Attention, {f32_input(b, "q", {2, 3, 8}), f32_input(b, "k", {2, 5, 8}), f32_input(b, "v", {2, 5, 8})},
                  a);
}
ValueId rotated(Builder& b, int64_t n_rot, ValueId gamma = {}) {
  const RopeAttrs a{.n_rot = n_rot, .layout = AttentionLayout::BHSD};
  const int64_t half = (n_rot ? n_rot : 8) / 2;
  return b.create(OpKind::Rope,
                  {f32_input(b, "x", {2, 2, 3, 8}), f32_input(b, "c", {3, half}), f32_input(b, "s", {3, half}), gamma}, a);
}

void check(const Rewrite& r, std::string_view left) {
  CHECK(r.left() == left);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("fuse_rounded_result: attention") {
  for (const DType t : {DType::U8, DType::I8})
    for (const double zero : {0, t == DType::U8 ? 255 : -128, 100})
      check(Rewrite(kPass, [&](Builder& b) -> std::vector<ValueId> { return {rounded(b, attended(b), t, zero)}; }), "attention");
  check(Rewrite(kPass, [&](Builder& b) -> std::vector<ValueId> { return {rounded(b, attended(b), DType::U8, 3, {1})}; }),
        "reshape reshape attention");
  const Rewrite shared(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId y = attended(b);
    return {rounded(b, y, DType::U8, 3), b.unary(OpKind::Abs, y)};
  });
  CHECK_FALSE(shared.result.changed);
  CHECK(shared.first_decline() == "multi_consumer");
}

TEST_CASE("fuse_rounded_result: rotations, of part of a head and with a factor") {
  for (const int64_t n_rot : {0, 4})
    for (const bool factor : {false, true})
      check(Rewrite(kPass,
                    [&](Builder& b) -> std::vector<ValueId> {
                      const ValueId y = rotated(b, n_rot);
                      return {rounded(b, factor ? b.mul(b.scalar(DType::F32, 0.3), y) : y, DType::I8, -7)};
                    }),
            "rope");
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  return {rounded(b, rotated(b, 0, f32_param(b, "gamma", {8})), DType::I8, 0)};
                }),
        "rope");
}

TEST_CASE("fuse_rounded_result: interpolations, and softmaxes of an inner axis") {
  const auto resized = [](ResizeMode mode, std::vector<Dim> sizes, DType t) {
    return [=](Builder& b) -> std::vector<ValueId> {
      ResizeAttrs a;
      a.mode = mode;
      a.sizes = sizes;
      return {rounded(b, b.create(OpKind::Resize, {f32_input(b, "x", {1, 2, 4, 5})}, a), t, 7)};
    };
  };
  for (const auto mode : {ResizeMode::Linear, ResizeMode::Cubic})
    for (const DType t : {DType::U8, DType::I8}) {
      check(Rewrite(kPass, resized(mode, {1, 2, 8, 10}, t)), "resize");
      check(Rewrite(kPass, resized(mode, {1, 2, 3, 5}, t)), "resize");
      check(Rewrite(kPass, resized(mode, {1, 2, 4, 5}, t)), "resize");
    }
  CHECK_FALSE(Rewrite(kPass, resized(ResizeMode::Nearest, {1, 2, 8, 10}, DType::U8)).result.changed);
  const auto softmax = [](int64_t axis) {
    return [=](Builder& b) -> std::vector<ValueId> {
      return {rounded(b, b.create(OpKind::Softmax, {f32_input(b, "x", {2, 5, 6})}, AxisAttrs{axis}), DType::U8, 7)};
    };
  };
  for (const int64_t axis : {0, 1}) check(Rewrite(kPass, softmax(axis)), "softmax");
  CHECK_FALSE(Rewrite(kPass, softmax(2)).result.changed);
}

TEST_CASE("fuse_rounded_result: dequantized results of the graph") {
  const auto net = [](OpKind op, DType t, double zero, double other, bool read) {
    return [=](Builder& b) -> std::vector<ValueId> {
      ResizeAttrs twice;
      twice.mode = ResizeMode::Linear;
      twice.sizes = {1, 2, 8, 10};
      const ValueId x = f32_input(b, "x", {1, 2, 4, 5});
      const ValueId y = op == OpKind::Attention ? attended(b)
                        : op == OpKind::Resize  ? b.create(op, {x}, twice)
                                                : b.create(op, {x}, AxisAttrs{1});
      const ValueId z = t == DType::U8 ? b.scalar(t, other) : b.scalar(DType::I8, other);
      const ValueId back = b.create(OpKind::Dequantize, {rounded(b, y, t, zero), b.scalar(DType::F32, 0.007), z},
                                    QuantAttrs{0, 0, DType::F32, true});
      return {read ? b.unary(OpKind::Sqrt, back) : back};
    };
  };
  for (const DType t : {DType::U8, DType::I8})
    for (const double zero : {0, 100}) {
      check(Rewrite(kPass, net(OpKind::Resize, t, zero, zero, false)), "resize");
      check(Rewrite(kPass, net(OpKind::Softmax, t, zero, zero, false)), "softmax");
      check(Rewrite(kPass, net(OpKind::Attention, t, zero, zero, false)), "attention");
    }
  check(Rewrite(kPass, net(OpKind::Softmax, DType::U8, 3, 4, false)), "softmax dequantize");
  check(Rewrite(kPass, net(OpKind::Softmax, DType::U8, 3, 3, true)), "softmax dequantize sqrt");
}

TEST_CASE("fuse_rounded_result: targets without the kernel keep both") {
  const Rewrite r(
      kPass, [&](Builder& b) -> std::vector<ValueId> { return {rounded(b, attended(b), DType::U8, 0)}; },
      [](PassRun& run) { run.target.native.reset(static_cast<size_t>(OpKind::Attention)); });
  CHECK_FALSE(r.result.changed);
}
