#include "passes/passes.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "quantize_slices";

// Integer sums [2,3,columns] as floats.
ValueId product(Builder& b, int64_t columns) {
  const ValueId x = b.input("x", tensor_type(DType::I8, {2, 3, 4})), w = b.input("w", tensor_type(DType::I8, {4, columns}));
  return b.mul(b.cast(b.create(OpKind::QMatMul, {x, w}), DType::F32), b.scalar(DType::F32, 0.003));
}
ValueId rounded(Builder& b, ValueId v, double scale, double zero, DType t = DType::U8) {
  return b.create(OpKind::Quantize, {v, b.scalar(DType::F32, scale), b.scalar(t, zero)}, QuantAttrs{0, 0, t, true});
}
ValueId heads(Builder& b, ValueId v) { return b.transpose(b.reshape(v, {2, 3, 2, 4}), {0, 2, 1, 3}); }

void check(const Rewrite& r, std::string_view left) {
  CHECK(r.left() == left);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("quantize_slices: queries, keys and values of one projection, with a factor and saturated codes") {
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId y = product(b, 24), half = b.scalar(DType::F32, 0.3);
                  return {rounded(b, b.mul(heads(b, b.narrow(y, 2, 0, 8)), half), 0.02, 128),
                          rounded(b, b.transpose(b.mul(half, heads(b, b.narrow(y, 2, 8, 8))), {0, 1, 3, 2}), 0.001, 255),
                          rounded(b, heads(b, b.narrow(y, 2, 16, 8)), 0.05, 0)};
                }),
        "q_matmul cast mul mul quantize narrow reshape transpose narrow reshape transpose transpose narrow reshape transpose");
}

TEST_CASE("quantize_slices: the last axis is split and moved before it is cut") {
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId y = b.transpose(b.reshape(product(b, 24), {2, 3, 3, 2, 4}), {2, 0, 3, 1, 4});
                  std::vector<ValueId> parts;
                  for (int64_t i = 0; i < 3; ++i)
                    parts.push_back(rounded(b, b.reshape(b.narrow(y, 0, i, 1), {2, 2, 3, 4}), 0.01 * static_cast<double>(i + 1),
                                            static_cast<double>(i), DType::I8));
                  return parts;
                }),
        "q_matmul cast mul quantize reshape transpose narrow reshape narrow reshape narrow reshape");
}

TEST_CASE("quantize_slices: the rows are merged where the last axis is split") {
  check(Rewrite(kPass,
                [](Builder& b) -> std::vector<ValueId> {
                  const ValueId y = b.transpose(b.reshape(product(b, 24), {6, 2, 12}), {1, 0, 2});
                  return {rounded(b, b.narrow(y, 2, 0, 4), 0.02, 128), rounded(b, b.narrow(y, 2, 4, 8), 0.003, 7)};
                }),
        "q_matmul cast mul quantize reshape transpose narrow narrow");
}

TEST_CASE("quantize_slices: slices along another axis, and of other values") {
  for (const bool input : {false, true})
    check(Rewrite(kPass,
                  [&](Builder& b) -> std::vector<ValueId> {
                    const ValueId y = input ? f32_input(b, "y", {2, 3, 4}) : product(b, 4);
                    const ValueId half = b.scalar(DType::F32, 0.5);
                    return {rounded(b, b.mul(b.reshape(b.narrow(y, 1, 0, 1), {2, 4, 1}), half), 0.02, 128),
                            rounded(b, b.reshape(b.narrow(y, 1, 2, 1), {2, 4}), 0.05, 3)};
                  }),
          input ? "reshape mul quantize narrow reshape narrow reshape"
                : "q_matmul cast mul reshape mul quantize narrow reshape narrow reshape");
  CHECK_FALSE(Rewrite(kPass, [](Builder& b) -> std::vector<ValueId> {
                const ValueId y = f32_param(b, "y", {2, 4});
                return {rounded(b, b.narrow(y, 0, 0, 1), 0.1, 3), rounded(b, b.narrow(y, 0, 1, 1), 0.2, 3)};
              }).result.changed);
}

TEST_CASE("quantize_slices: what stays") {
  const auto changes = [](const std::function<ValueId(Builder&, ValueId)>& second) {
    return Rewrite(kPass,
                   [&](Builder& b) -> std::vector<ValueId> {
                     const ValueId y = product(b, 16);
                     return {rounded(b, b.narrow(y, 2, 0, 8), 0.02, 128), second(b, y)};
                   })
        .result.changed;
  };
  CHECK(changes([](Builder& b, ValueId y) { return rounded(b, b.narrow(y, 2, 8, 8), 0.01, 3); }));
  // Columns without a reader, a reader of floats, another type, an overlap, another axis, and a scale of each run.
  CHECK(changes([](Builder& b, ValueId y) { return rounded(b, b.narrow(y, 2, 10, 4), 0.01, 3); }));
  CHECK_FALSE(changes([](Builder& b, ValueId y) { return b.unary(OpKind::Abs, b.narrow(y, 2, 8, 8)); }));
  CHECK_FALSE(changes([](Builder& b, ValueId y) { return b.unary(OpKind::Abs, y); }));
  CHECK_FALSE(changes([](Builder& b, ValueId y) { return rounded(b, b.narrow(y, 2, 8, 8), 0.01, 3, DType::I8); }));
  CHECK_FALSE(changes([](Builder& b, ValueId y) { return rounded(b, b.narrow(y, 2, 4, 8), 0.01, 3); }));
  CHECK_FALSE(changes([](Builder& b, ValueId y) { return rounded(b, b.narrow(y, 1, 0, 1), 0.01, 3); }));
  CHECK_FALSE(changes([](Builder& b, ValueId y) {
    const ValueId s = f32_input(b, "s", {});
    return b.create(OpKind::Quantize, {b.narrow(y, 2, 8, 8), s, b.scalar(DType::U8, 0)}, QuantAttrs{0, 0, DType::U8, true});
  }));
}

TEST_CASE("quantize_slices: slices of codes are scaled and quantized again, and others keep the codes") {
  const auto again = [](Builder& b, ValueId codes, double scale, double zero) {
    return b.create(OpKind::Dequantize, {codes, b.scalar(DType::F32, scale), b.scalar(DType::U8, zero)},
                    QuantAttrs{0, 0, DType::F32, true});
  };
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId c = rounded(b, product(b, 24), 0.02, 120), f = b.scalar(DType::F32, 0.3);
                  return {rounded(b, b.mul(again(b, heads(b, b.narrow(c, 2, 0, 8)), 0.02, 120), f), 0.004, 128),
                          b.transpose(rounded(b, b.mul(again(b, b.narrow(c, 2, 8, 8), 0.02, 120), f), 0.05, 7), {0, 2, 1}),
                          heads(b, b.narrow(c, 2, 16, 8))};
                }),
        "q_matmul cast mul quantize dequantize mul quantize narrow reshape transpose narrow narrow transpose reshape transpose");
  // A factor that is dequantized, and reshaped.
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId c = rounded(b, product(b, 16), 0.02, 120),
                                f = again(b, b.reshape(b.scalar(DType::U8, 77), {1}), 0.01, 50);
                  return {rounded(b, b.mul(again(b, b.narrow(c, 2, 0, 8), 0.02, 120), b.reshape(f, {})), 0.004, 128),
                          b.narrow(c, 2, 8, 8)};
                }),
        "q_matmul cast mul quantize dequantize mul quantize narrow narrow");
  // Other numbers than those of the codes.
  const Rewrite other(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId c = rounded(b, product(b, 16), 0.02, 120);
    return {rounded(b, again(b, b.narrow(c, 2, 0, 8), 0.03, 120), 0.004, 128), b.narrow(c, 2, 8, 8)};
  });
  check(other, "q_matmul cast mul quantize narrow dequantize quantize narrow");
  // A slice that is quantized again overlaps with one that keeps the codes.
  const Rewrite both(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId c = rounded(b, product(b, 16), 0.02, 120);
    return {rounded(b, again(b, b.narrow(c, 2, 0, 8), 0.02, 120), 0.004, 128), b.narrow(c, 2, 4, 8)};
  });
  check(both, "q_matmul cast mul quantize narrow dequantize quantize narrow");
}
