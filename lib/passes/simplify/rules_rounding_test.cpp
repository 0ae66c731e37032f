#include "passes/passes.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "algebraic_simplify";

ValueId codes(Builder& b, ValueId v, double scale, double zero) {
  return b.create(OpKind::Quantize, {v, b.reshape(b.scalar(DType::F32, scale), {1}), b.scalar(DType::U8, zero)},
                  QuantAttrs{1, 0, DType::U8, true});
}
// A Q/DQ pair.
ValueId pair(Builder& b, ValueId v, double scale = 0.04, double zero = 120) {
  return b.create(OpKind::Dequantize, {codes(b, v, scale, zero), b.scalar(DType::F32, scale), b.scalar(DType::U8, zero)},
                  QuantAttrs{0, 0, DType::F32, true});
}
ValueId condition(Builder& b) {
  return b.create(OpKind::Gt, {b.input("i", tensor_type(DType::I64, {5})), b.scalar(DType::I64, 1)});
}
ValueId scores(Builder& b) { return f32_input(b, "scores", {2, 5}); }
ValueId mask(Builder& b) { return b.create(OpKind::Where, {condition(b), b.scalar(DType::F32, 0), b.scalar(DType::F32, -9)}); }

// A bias for each pair of positions, of a table of `rows` rows.
ValueId bias(Builder& b, int64_t rows) {
  return b.transpose(
      b.create(OpKind::Gather, {f32_param(b, "table", {rows, 3}), b.input("at", tensor_type(DType::I64, {4, 4}))}, AxisAttrs{0}),
      {2, 0, 1});
}

void check(const Rewrite& r, std::string_view left) {
  CHECK(r.left() == left);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed, {0, 0});
}

}  // namespace

TEST_CASE("the two numbers of a mask are rounded, not the mask") {
  check(Rewrite(kPass, [](Builder& b) -> std::vector<ValueId> { return {b.add(scores(b), pair(b, mask(b)))}; }),
        "gt quantize quantize dequantize dequantize where add");
  // (1 - flag) * -9, where both elementwise nodes are rounded.
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId flag = b.cast(condition(b), DType::F32), one = b.scalar(DType::F32, 1);
                  const ValueId off = pair(b, b.sub(one, flag), 0.01, 0);
                  return {b.add(scores(b), pair(b, b.mul(off, b.scalar(DType::F32, -9))))};
                }),
        "gt sub quantize quantize dequantize dequantize mul quantize mul quantize dequantize dequantize where add");
}

TEST_CASE("a mask that several read with scales of their own is selected for each") {
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId m = mask(b), s = scores(b);
                  return {b.add(s, pair(b, m)), b.mul(s, pair(b, m, 0.03, 9))};
                }),
        "gt quantize quantize dequantize dequantize where add quantize quantize dequantize dequantize where mul");
}

TEST_CASE("a small table is rounded, not what is gathered from it") {
  const auto biased = [](int64_t rows, bool shared) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId v = bias(b, rows), y = b.unary(OpKind::Exp, pair(b, v));
      return shared ? std::vector{y, b.unary(OpKind::Abs, v)} : std::vector{y};
    };
  };
  check(Rewrite(kPass, biased(6, false)), "quantize dequantize gather transpose exp");
  // A large table would have a large copy, and a second reader of the floats would need a second Gather.
  check(Rewrite(kPass, biased(30000, false)), "gather transpose quantize dequantize exp");
  check(Rewrite(kPass, biased(6, true)), "gather transpose quantize dequantize exp abs");
}

TEST_CASE("what is gathered from a table and masked is rounded before") {
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId c = b.input("c", tensor_type(DType::Bool, {4, 4}));
                  return {b.unary(OpKind::Exp, pair(b, b.create(OpKind::Where, {c, bias(b, 6), b.scalar(DType::F32, -9)})))};
                }),
        "quantize quantize dequantize gather transpose dequantize where exp");
}

TEST_CASE("a matmul of what is gathered reads codes") {
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  return {b.matmul(pair(b, bias(b, 6)), f32_param(b, "w", {4, 5}))};
                }),
        "quantize gather transpose dequantize matmul");
}

TEST_CASE("what is computed from inputs, or rounded by several scales, is rounded where it is") {
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId x = f32_input(b, "x", {5});
                  return {b.unary(OpKind::Exp, pair(b, b.create(OpKind::Where, {condition(b), x, b.scalar(DType::F32, -9)})))};
                }),
        "gt where quantize dequantize exp");
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId steps = b.constant(make_data(DType::F32, {5}, std::vector<float>{1, 2, 3, 4, 5}));
                  return {b.create(OpKind::Quantize, {mask(b), steps, {}}, QuantAttrs{0, 0, DType::I8, true})};
                }),
        "gt where quantize");
}

TEST_CASE("what is padded is rounded before") {
  const auto padded = [](PadMode mode, bool shared) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = b.unary(OpKind::Exp, f32_input(b, "x", {2, 5}));
      const ValueId y = b.create(OpKind::Pad, {x, b.scalar(DType::F32, 0.5)}, PadAttrs{{0, 1}, {0, 2}, mode});
      return shared ? std::vector{codes(b, y, 0.04, 120), y} : std::vector{codes(b, y, 0.04, 120)};
    };
  };
  check(Rewrite(kPass, padded(PadMode::Constant, false)), "exp quantize quantize pad");
  check(Rewrite(kPass, padded(PadMode::Reflect, false)), "exp quantize pad");
  check(Rewrite(kPass, padded(PadMode::Constant, true)), "exp pad quantize");
}

TEST_CASE("values that are rounded to the same grid again") {
  const auto round = [](Builder& b, ValueId v, ValueId scale = {}, int64_t axis = -1) {
    FakeQuantizeAttrs a;
    a.axis = axis;
    if (scale.valid()) a.mode = FakeQuantizeMode::Fixed;
    return scale.valid() ? b.create(OpKind::FakeQuantize, {v, scale}, a) : b.create(OpKind::FakeQuantize, {v}, a);
  };
  const auto check = [&](const Rewrite& r, std::string_view left) {
    CHECK(r.left() == left);
    same_results(*r.before, *r.after, 1, {1e-6, 1e-6});
  };
  using Values = std::vector<ValueId>;
  check(Rewrite(kPass,
                [&](Builder& b) -> Values {
                  return {round(b, b.transpose(b.reshape(round(b, f32_input(b, "x", {4, 6})), {3, 8}), {1, 0}))};
                }),
        "fake_quantize reshape transpose");
  check(Rewrite(kPass,
                [&](Builder& b) -> Values {
                  const ValueId scale = f32_param(b, "scale", {1});
                  return {round(b, b.unary(OpKind::Relu, round(b, f32_input(b, "x", {4, 6}), scale)), scale)};
                }),
        "fake_quantize relu");
  // The largest value may be negative; scales differ; scales of an axis.
  check(Rewrite(kPass,
                [&](Builder& b) -> Values {
                  return {round(b, b.unary(OpKind::Relu, round(b, f32_input(b, "x", {4, 6}))))};
                }),
        "fake_quantize relu fake_quantize");
  check(Rewrite(kPass,
                [&](Builder& b) -> Values {
                  return {round(b, round(b, f32_input(b, "x", {4, 6}), f32_param(b, "s", {1})), f32_param(b, "t", {1}))};
                }),
        "fake_quantize fake_quantize");
  check(Rewrite(kPass,
                [&](Builder& b) -> Values {
                  return {round(b, b.transpose(round(b, f32_input(b, "x", {4, 4}), {}, 0), {1, 0}), {}, 0)};
                }),
        "fake_quantize transpose fake_quantize");
}
