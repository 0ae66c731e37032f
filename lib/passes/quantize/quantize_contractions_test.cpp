#include <limits>

#include "passes/passes.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "quantize_contractions";

// Dequantizes an input with constant scale and zero point, per axis if `axis` is given.
ValueId dequantized(Builder& b, std::string_view name, std::vector<Dim> dims, bool zero, std::optional<int64_t> axis = {},
                    DType q = DType::I8) {
  const int64_t n = axis ? dims[static_cast<size_t>(*axis)].size() : 1;
  const ValueId x = b.input(name, tensor_type(q, std::move(dims)));
  std::vector<float> scales;
  std::vector<int8_t> zeros;
  for (int64_t i = 0; i < n; ++i)
    scales.push_back(0.05F + 0.01F * static_cast<float>(i)), zeros.push_back(static_cast<int8_t>(1 + i));
  const std::vector<int64_t> shape = axis ? std::vector<int64_t>{n} : std::vector<int64_t>{};
  const ValueId s = b.constant(make_data(DType::F32, shape, scales)),
                z = zero ? b.constant(make_data(q, shape, zeros)) : ValueId();
  return b.create(OpKind::Dequantize, {x, s, z}, QuantAttrs{axis.value_or(0), 0, DType::F32, true});
}

void check(const Rewrite& r, std::string_view left) {
  CHECK(r.left() == left);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("a product of dequantized operands runs on integers: zero points, columns, transposed operands") {
  for (bool zero : {false, true})
    for (bool columns : {false, true})
      for (bool trans : {false, true}) {
        const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
          std::optional<int64_t> axis;
          if (columns) axis.emplace(trans ? 0 : 1);
          const ValueId x = dequantized(b, "x", {2, 3, 4}, zero),
                        w = dequantized(b, "w", trans ? std::vector<Dim>{5, 4} : std::vector<Dim>{4, 5}, zero, axis);
          return {b.matmul(x, w, false, trans)};
        });
        check(r, trans ? "transpose q_matmul mul cast mul" : "q_matmul mul cast mul");
        CHECK(r.run.decisions.at(0).fused);
      }
}

TEST_CASE("unsigned activations with signed weights") {
  const Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    return {b.matmul(dequantized(b, "x", {3, 4}, true, {}, DType::U8), dequantized(b, "w", {4, 5}, false, 1))};
  });
  check(r, "q_matmul mul cast mul");
}

TEST_CASE("a convolution runs on integers, with padding, groups and bias") {
  for (bool zero : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId x = dequantized(b, "x", {2, 4, 5, 5}, zero), w = dequantized(b, "w", {6, 2, 3, 3}, zero, 0);
      return {b.create(OpKind::Conv, {x, w, f32_input(b, "bias", {6})}, ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, 2})};
    });
    check(r, "q_conv mul reshape cast mul reshape add");
  }
}

TEST_CASE("dequantizing sinks below movement, and the same quantization again gives the integers back") {
  const Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    const ValueId x = dequantized(b, "x", {2, 3, 8}, true);
    const ValueId y = b.transpose(b.reshape(b.narrow(x, 2, 0, 4), {6, 4}), {1, 0});
    const NodeId d = b.graph().def(x);
    return {b.create(OpKind::Quantize, {y, b.graph().operand(d, 1), b.graph().operand(d, 2)}, QuantAttrs{0, 0, DType::I8, true})};
  });
  check(r, "narrow reshape transpose");
}

TEST_CASE("dequantizing sinks below what selects elements: max pooling and nearest resizing") {
  const auto pooled = [](ReduceOp op, float scale) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = b.input("x", tensor_type(DType::U8, {1, 2, 6, 6})), s = b.scalar(DType::F32, scale);
      PoolAttrs pool;
      pool.op = op;
      pool.kernel = {3, 3}, pool.strides = {2, 2}, pool.pads_begin = pool.pads_end = {1, 1}, pool.dilations = {1, 1};
      const ValueId v = b.create(OpKind::Dequantize, {x, s, b.scalar(DType::U8, 9)}, QuantAttrs{0, 0, DType::F32, true});
      return {b.create(OpKind::Pool, {v}, pool)};
    };
  };
  check(Rewrite(kPass, pooled(ReduceOp::Max, 0.05F)), "pool dequantize");
  CHECK_FALSE(Rewrite(kPass, pooled(ReduceOp::Max, -0.05F)).result.changed);
  CHECK_FALSE(Rewrite(kPass, pooled(ReduceOp::Sum, 0.05F)).result.changed);
  const auto resized = [](ResizeMode mode) {
    return [=](Builder& b) -> std::vector<ValueId> {
      ResizeAttrs a;
      a.sizes = {1, 2, 8, 7};
      a.mode = mode;
      return {b.create(OpKind::Resize, {dequantized(b, "x", {1, 2, 4, 5}, true)}, a)};
    };
  };
  check(Rewrite(kPass, resized(ResizeMode::Nearest)), "resize dequantize");
  CHECK_FALSE(Rewrite(kPass, resized(ResizeMode::Linear)).result.changed);
}

TEST_CASE("a mean of windows of codes is a convolution by ones, divided by the number of elements") {
  const auto mean = [](std::vector<Dim> dims, int64_t pad, bool include, bool ceil = false) {
    return Rewrite(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId x = b.input("x", tensor_type(DType::U8, dims)), s = b.scalar(DType::F32, 0.125);
      PoolAttrs pool;
      pool.op = ReduceOp::Mean;
      pool.kernel = {3, 2}, pool.strides = {2, 1}, pool.pads_begin = {pad, 0}, pool.pads_end = {pad, pad},
      pool.dilations = {1, 2};
      pool.count_include_pad = include, pool.ceil_mode = ceil;
      const ValueId v = b.create(OpKind::Dequantize, {x, s, b.scalar(DType::U8, 9)}, QuantAttrs{0, 0, DType::F32, true});
      return {b.create(OpKind::Pool, {v}, pool)};
    });
  };
  for (const bool include : {false, true})
    for (const int64_t pad : {0, 1}) check(mean({2, 3, 6, 5}, pad, include), "q_conv cast mul div");
  check(mean({1, 1, 3, 3}, 0, false), "q_conv cast mul div");
  CHECK_FALSE(mean({2, 3, 6, 5}, 0, false, true).result.changed);
}

TEST_CASE("dequantizing sinks below a max pooling and a resize to the nearest element on the way to a convolution") {
  for (const bool pool : {false, true})
    for (const int64_t dilation : {1, 2})
      for (const int64_t pad : {0, 1}) {
        const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
          ValueId x = dequantized(b, "x", {1, 4, 6, 6}, true);
          PoolAttrs window;
          window.kernel = {2, 2}, window.strides = {1, 1}, window.pads_begin = window.pads_end = {pad, pad};
          window.dilations = {dilation, dilation};
          ResizeAttrs larger;
          larger.sizes = {1, 4, 12, 12};
          x = pool ? b.create(OpKind::Pool, {x}, window) : b.create(OpKind::Resize, {x}, larger);
          const ValueId w = dequantized(b, "w", {6, 4, 3, 3}, true, 0);
          return {b.create(OpKind::Conv, {x, w}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1})};
        });
        CHECK(r.find(OpKind::QConv).valid() == (!pool || dilation == 1 || pad == 0));
      }
}

TEST_CASE("a per-axis scale follows a transpose, and stops a reshape") {
  const Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    return {b.transpose(dequantized(b, "w", {4, 5}, true, 0), {1, 0})};
  });
  check(r, "transpose dequantize");
  CHECK(r.after->main().attrs<QuantAttrs>(r.find(OpKind::Dequantize)).axis == 1);
  const Rewrite s(kPass, [](Builder& b) -> std::vector<ValueId> {
    return {b.reshape(dequantized(b, "w", {4, 5}, true, 0), {20})};
  });
  CHECK_FALSE(s.result.changed);
}

TEST_CASE("16-bit activations are multiplied as two digits where bytes are fast") {
  const auto fast = [](PassRun& run) { run.target.fast_bytes = true; };
  for (const DType type : {DType::U16, DType::I16})
    for (const int64_t zero : {int64_t{0}, int64_t{700}, int64_t{-300}, int64_t{512}, int64_t{40001}}) {
      const auto words = [&](Builder& b, std::vector<Dim> dims) {
        const ValueId x = b.input("x", tensor_type(type, std::move(dims)));
        return b.create(OpKind::Dequantize, {x, b.scalar(DType::F32, 0.01), b.scalar(type, static_cast<double>(zero))},
                        QuantAttrs{0, 0, DType::F32, true});
      };
      if (zero < 0 ? type == DType::U16 : zero > INT16_MAX && type == DType::I16) continue;
      int64_t columns = 200;
      const auto product = [&](Builder& b) -> std::vector<ValueId> {
        return {b.matmul(words(b, {3, 20}), dequantized(b, "w", {20, columns}, true, 1))};
      };
      const Rewrite r(kPass, product, fast);
      check(r, "cast mul floor cast mul sub cast q_matmul q_matmul mul cast mul cast add mul");
      const Rewrite c(
          kPass,
          [&](Builder& b) -> std::vector<ValueId> {
            const ValueId w = dequantized(b, "w", {48, 2, 3, 3}, false, 0);
            return {b.create(OpKind::Conv, {words(b, {2, 4, 5, 5}), w, f32_input(b, "bias", {48})},
                             ConvAttrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, 2})};
          },
          fast);
      CHECK(c.result.changed);
      for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*c.before, *c.after, seed);
      CHECK(Rewrite(kPass, product).first_decline() == "operand_not_quantized");
      columns = 64;
      CHECK(Rewrite(kPass, product, fast).first_decline() == "small");
    }
}

TEST_CASE("what is declined, and why") {
  const auto reason = [](const Rewrite::Build& build, const std::function<void(PassRun&)>& configure = {}) {
    const Rewrite r(kPass, build, configure);
    CHECK_FALSE(r.result.changed);
    return r.first_decline();
  };
  CHECK(reason([](Builder& b) -> std::vector<ValueId> {
          return {b.matmul(dequantized(b, "x", {3, 4}, false), f32_input(b, "w", {4, 5}))};
        }) == "operand_not_quantized");
  CHECK(reason([](Builder& b) -> std::vector<ValueId> {
          return {b.matmul(dequantized(b, "x", {3, 4}, false, 0), dequantized(b, "w", {4, 5}, false))};
        }) == "scale_per_axis");
  CHECK(reason([](Builder& b) -> std::vector<ValueId> {
          return {b.matmul(dequantized(b, "x", {3, 4}, false), dequantized(b, "w", {4, 5}, false, 0))};
        }) == "scale_per_contracted_axis");
  CHECK(reason([](Builder& b) -> std::vector<ValueId> {
          return {b.matmul(dequantized(b, "x", {3, 40000}, true), dequantized(b, "w", {40000, 5}, true))};
        }) == "accumulator_may_overflow");
  CHECK(reason(
            [](Builder& b) -> std::vector<ValueId> {
              return {b.matmul(dequantized(b, "x", {3, 4}, true), dequantized(b, "w", {4, 5}, true))};
            },
            [](PassRun& run) { run.target.native.reset(static_cast<size_t>(OpKind::QMatMul)); })
            .empty());
}

TEST_CASE("a row of rounded probabilities has a bounded sum, whatever its length") {
  const auto quantized = [](double scale, bool softmax, bool guarded) {
    return Rewrite(kPass,
                   [&](Builder& b) -> std::vector<ValueId> {
                     const Dim n = b.module().dims.symbol("keys");
                     const ValueId x = f32_input(b, "x", {3, n});
                     ValueId p = softmax ? b.create(OpKind::Softmax, {x}, AxisAttrs{1}) : x;
                     if (guarded) p = b.create(OpKind::Where, {b.unary(OpKind::IsNan, p), b.scalar(DType::F32, 0), p});
                     const ValueId s = b.scalar(DType::F32, scale), z = b.scalar(DType::U8, 3);
                     const ValueId q = b.create(OpKind::Quantize, {p, s, z}, QuantAttrs{0, 0, DType::U8, true});
                     return {b.matmul(b.create(OpKind::Dequantize, {q, s, z}, QuantAttrs{0, 0, DType::F32, true}),
                                      dequantized(b, "v", {n, 5}, true))};
                   })
        .find(OpKind::QMatMul)
        .valid();
  };
  CHECK(quantized(0.004, true, false));
  CHECK(quantized(0.004, true, true));
  CHECK_FALSE(quantized(0.004, false, false));
  CHECK_FALSE(quantized(1e-9, true, false));
}

TEST_CASE("limits that are values of codes clamp the codes") {
  // The scale is 0.05 and the zero point 1, as f32.
  const auto clamped = [](double low, double high, bool product, DType t = DType::I8) {
    return Rewrite(kPass, [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = dequantized(b, "x", {3, 4}, true, {}, t), w = dequantized(b, "w", {4, 5}, false, 1);
      const bool relu = low == 0 && high == std::numeric_limits<double>::infinity();
      const ValueId v = relu ? b.unary(OpKind::Relu, x) : b.create(OpKind::Clamp, {x}, ClampAttrs{low, high});
      return {product ? b.matmul(b.reshape(v, {3, 4}), w) : v};
    });
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double code = static_cast<double>(20 * 0.05F);
  check(clamped(0, kInf, true), "max q_matmul mul cast mul");
  check(clamped(0, kInf, true, DType::U8), "max q_matmul mul cast mul");
  check(clamped(-code, code, true), "max min q_matmul mul cast mul");
  check(clamped(-100, 100, true), "q_matmul mul cast mul");
  CHECK_FALSE(clamped(0, 0.33, true).find(OpKind::QMatMul).valid());
  CHECK_FALSE(clamped(50, 60, true).find(OpKind::QMatMul).valid());
  CHECK_FALSE(clamped(0, kInf, false).result.changed);
}

TEST_CASE("integers of one scale are concatenated before a convolution") {
  const auto joined = [](bool alike) {
    return Rewrite(kPass, [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = dequantized(b, "x", {2, 3, 5, 5}, true), y = dequantized(b, "y", {2, 1, 5, 5}, alike),
                    w = dequantized(b, "w", {6, 4, 3, 3}, true, 0);
      return {b.create(OpKind::Conv, {b.concat(std::vector{x, b.unary(OpKind::Relu, y)}, 1), w},
                       ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1})};
    });
  };
  check(joined(true), "max concat q_conv mul reshape cast mul");
  CHECK_FALSE(joined(false).find(OpKind::QConv).valid());
}
