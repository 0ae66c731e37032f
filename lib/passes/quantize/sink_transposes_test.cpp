#include "passes/passes.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "sink_transposes";

// Integer sums [2,3,5,6] as floats.
ValueId product(Builder& b) {
  const ValueId x = b.input("x", tensor_type(DType::I8, {2, 3, 5, 4})), w = b.input("w", tensor_type(DType::I8, {4, 6}));
  return b.mul(b.cast(b.create(OpKind::QMatMul, {x, w}), DType::F32), b.scalar(DType::F32, 0.003));
}
ValueId residual(Builder& b) { return b.unary(OpKind::Silu, f32_input(b, "r", {2, 3, 5, 6})); }

ValueId convolution(Builder& b) {
  const ValueId image = b.input("image", tensor_type(DType::I8, {2, 2, 3, 5})),
                w = b.input("kernel", tensor_type(DType::I8, {6, 2, 1, 1}));
  const ValueId sums = b.create(OpKind::QConv, {image, w}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1});
  return b.mul(b.cast(sums, DType::F32), b.scalar(DType::F32, 0.02));
}
ValueId quantized(Builder& b, ValueId v, double scale) {
  return b.create(OpKind::Quantize, {v, b.scalar(DType::F32, scale), {}}, QuantAttrs{0, 0, DType::U8, true});
}
ValueId dequantized(Builder& b, ValueId codes, double scale) {
  return b.create(OpKind::Dequantize, {codes, b.scalar(DType::F32, scale), {}}, QuantAttrs{0, 0, DType::F32, true});
}

void check(const Rewrite& r, std::string_view left) {
  CHECK(r.left() == left);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("sink_transposes: a residual is added before both are transposed, and back again") {
  for (const bool first : {false, true})
    check(Rewrite(
              kPass,
              [&](Builder& b) -> std::vector<ValueId> {
                const ValueId y = b.transpose(product(b), {0, 3, 1, 2}), r = b.transpose(residual(b), {0, 3, 1, 2});
                const ValueId sum = first ? b.add(y, r) : b.add(r, y);
                return {b.unary(OpKind::Abs, b.transpose(sum, {0, 2, 3, 1})), b.unary(OpKind::Neg, sum), b.unary(OpKind::Exp, r)};
              }),
          "q_matmul cast mul silu transpose add transpose abs neg exp");
}

TEST_CASE("sink_transposes: the result of a convolution is a residual, and is read by others") {
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId r = convolution(b);
                  return {quantized(b, r, 0.1), b.unary(OpKind::Neg, b.add(r, b.transpose(product(b), {0, 3, 1, 2})))};
                }),
        "q_conv cast mul transpose transpose quantize q_matmul cast mul add transpose neg");
}

TEST_CASE("sink_transposes: a residual of codes that are transposed is dequantized before") {
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId codes = b.transpose(b.input("codes", tensor_type(DType::I8, {2, 3, 5, 6})), {0, 3, 1, 2});
                  const ValueId r = b.create(OpKind::Dequantize, {codes, b.scalar(DType::F32, 0.1), b.scalar(DType::I8, 5)},
                                             QuantAttrs{0, 0, DType::F32, true});
                  return {b.add(r, b.transpose(product(b), {0, 3, 1, 2})), codes};
                }),
        "transpose dequantize q_matmul cast mul add transpose");
}

TEST_CASE("sink_transposes: Q/DQ pairs of both come before the transposes") {
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId codes = quantized(b, convolution(b), 0.1), r = dequantized(b, codes, 0.1);
                  const ValueId y = dequantized(b, quantized(b, b.transpose(product(b), {0, 3, 1, 2}), 0.2), 0.2);
                  return {b.unary(OpKind::Neg, b.add(r, y)), codes};
                }),
        "q_conv cast mul transpose quantize transpose dequantize q_matmul cast mul quantize dequantize add transpose neg");
}

TEST_CASE("sink_transposes: what stays") {
  const auto changes = [](const std::function<std::vector<ValueId>(Builder&)>& build) {
    return Rewrite(kPass, build).result.changed;
  };
  // No product, another permutation, and another reader of the transposed product.
  CHECK_FALSE(changes([](Builder& b) -> std::vector<ValueId> {
    const ValueId x = b.unary(OpKind::Abs, f32_input(b, "x", {2, 3, 5, 6}));
    return {b.add(b.transpose(x, {0, 3, 1, 2}), b.transpose(residual(b), {0, 3, 1, 2}))};
  }));
  CHECK_FALSE(changes([](Builder& b) -> std::vector<ValueId> {
    const ValueId r = f32_input(b, "r", {6, 2, 3, 5});
    return {b.add(b.transpose(product(b), {0, 3, 1, 2}), b.transpose(r, {1, 0, 2, 3}))};
  }));
  CHECK_FALSE(changes([](Builder& b) -> std::vector<ValueId> {
    const ValueId y = b.transpose(product(b), {0, 3, 1, 2});
    return {b.add(y, b.transpose(residual(b), {0, 3, 1, 2})), b.unary(OpKind::Abs, y)};
  }));
}
