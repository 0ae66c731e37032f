#include "passes/passes.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "lift_quantize";

ValueId rounded(Builder& b, ValueId v, std::vector<float> scale, DType t = DType::I8) {
  const auto n = static_cast<int64_t>(scale.size());
  const std::vector<int64_t> shape = n == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{n};
  return b.create(OpKind::Quantize, {v, b.constant(make_data(DType::F32, shape, scale)), {}}, QuantAttrs{1, 0, t, true});
}
ValueId dequantized(Builder& b, ValueId v, float scale) {
  return b.create(OpKind::Dequantize, {v, b.scalar(DType::F32, scale), {}}, QuantAttrs{0, 0, DType::F32, true});
}
// The sums of an integer matmul, [5,6], as floats with a bias.
ValueId product(Builder& b) {
  const ValueId x = b.input("x", tensor_type(DType::I8, {5, 4})), w = b.input("w", tensor_type(DType::I8, {4, 6}));
  const ValueId sums = b.cast(b.create(OpKind::QMatMul, {x, w}), DType::F32);
  return b.add(b.mul(sums, b.scalar(DType::F32, 0.01)), f32_input(b, "bias", {6}));
}
ValueId heads(Builder& b, ValueId v) { return b.mul(b.transpose(b.reshape(v, {5, 2, 3}), {1, 0, 2}), b.scalar(DType::F32, 0.5)); }
ValueId norm(Builder& b, std::vector<Dim> dims) {
  const int64_t width = dims.back().size();
  const ValueId x = f32_input(b, "x", std::move(dims));
  return b.create(OpKind::LayerNorm, {x, f32_param(b, "gamma", {width}), {}}, NormAttrs{b.graph().rank(x) - 1, 1e-5});
}

void check(const Rewrite& r, std::string_view left) {
  CHECK(r.left() == left);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("rounding rises above movement and scalar factors to the matmul that it rounds") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> { return {rounded(b, heads(b, product(b)), {0.25F})}; });
  check(r, "q_matmul cast mul add mul quantize reshape transpose");
  // One scale for each head, an input instead of a product, and a second reader stay as they are.
  const Rewrite columns(kPass, [&](Builder& b) -> std::vector<ValueId> {
    return {rounded(b, heads(b, product(b)), {0.25F, 0.5F, 0.25F, 0.125F, 1})};
  });
  CHECK_FALSE(columns.result.changed);
  const Rewrite given(kPass, [&](Builder& b) -> std::vector<ValueId> {
    return {rounded(b, heads(b, f32_input(b, "y", {5, 6})), {1})};
  });
  CHECK_FALSE(given.result.changed);
  const Rewrite shared(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId v = heads(b, product(b));
    return {rounded(b, v, {1}), b.unary(OpKind::Abs, v)};
  });
  CHECK_FALSE(shared.result.changed);
}

TEST_CASE("rounding rises to norms, also if others read the norm through a reshape") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId y = b.reshape(norm(b, {2, 3, 8}), {6, 8});
    return {rounded(b, y, {0.125F}, DType::U8), b.unary(OpKind::Abs, y)};
  });
  check(r, "layer_norm reshape quantize reshape abs");
}

TEST_CASE("rounding rises to an elementwise node if others read what it computes from") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId v = product(b), h = b.transpose(b.reshape(b.unary(OpKind::Silu, v), {5, 2, 3}), {1, 0, 2});
    return {rounded(b, h, {0.25F}), b.unary(OpKind::Abs, v)};
  });
  check(r, "q_matmul cast mul add silu quantize reshape transpose abs");
}

TEST_CASE("rounding rises above the slices and the concatenation of a rolled window") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId y = norm(b, {4, 8}), parts[] = {b.narrow(y, 0, 1, 3), b.narrow(y, 0, 0, 1)};
    return {rounded(b, b.transpose(b.concat(parts, 0), {1, 0}), {0.125F})};
  });
  check(r, "layer_norm quantize narrow narrow concat transpose");
  // A slice alone has fewer elements than what it is cut from.
  const Rewrite part(kPass, [&](Builder& b) -> std::vector<ValueId> {
    return {rounded(b, b.narrow(norm(b, {4, 8}), 0, 1, 3), {0.125F})};
  });
  CHECK_FALSE(part.result.changed);
}

TEST_CASE("all parts of a concatenation are rounded, or none") {
  const auto graph = [](bool computed) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "z", {5, 6}),
                    parts[] = {product(b), computed ? b.unary(OpKind::Silu, x) : x, f32_param(b, "token", {1, 6})};
      return {rounded(b, b.concat(parts, 0), {0.125F})};
    };
  };
  check(Rewrite(kPass, graph(true)), "q_matmul cast mul add silu quantize quantize quantize concat");
  CHECK_FALSE(Rewrite(kPass, graph(false)).result.changed);
}

TEST_CASE("values that are repeated are rounded before") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    return {rounded(b, b.reshape(b.expand(b.reshape(product(b), {5, 1, 6}), {5, 4, 6}), {20, 6}), {0.25F})};
  });
  check(r, "q_matmul cast mul add quantize reshape expand reshape");
}

TEST_CASE("rounding rises above a Q/DQ pair, which is one step of the matmul") {
  const Rewrite pair(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId v = dequantized(b, rounded(b, product(b), {0.5F}), 0.5F);
    return {rounded(b, b.reshape(b.unary(OpKind::Silu, v), {5, 3, 2}), {0.125F}, DType::U8)};
  });
  check(pair, "q_matmul cast mul add quantize dequantize silu quantize reshape");
  const Rewrite between(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId v = dequantized(b, b.transpose(rounded(b, product(b), {0.5F}), {1, 0}), 0.5F);
    return {rounded(b, v, {0.125F}, DType::U8)};
  });
  check(between, "q_matmul cast mul add quantize dequantize quantize transpose");
}

TEST_CASE("parts of a concatenation that are quantized alike already stay integers") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId parts[] = {dequantized(b, b.input("a", tensor_type(DType::I8, {2, 6})), 0.5F), product(b)};
    return {rounded(b, b.concat(parts, 0), {0.5F})};
  });
  check(r, "q_matmul cast mul add quantize concat");
}

TEST_CASE("rounding rises above a max pooling") {
  const auto graph = [&](DType t, float scale, ReduceOp op) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = b.input("x", tensor_type(DType::I8, {1, 2, 6, 6})),
                    w = b.input("w", tensor_type(DType::I8, {3, 2, 1, 1}));
      const ValueId sums = b.create(OpKind::QConv, {x, w}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1});
      PoolAttrs pool;
      pool.op = op;
      pool.kernel = {3, 3}, pool.strides = {2, 2}, pool.pads_begin = pool.pads_end = {1, 1}, pool.dilations = {1, 1};
      const ValueId y = b.mul(b.cast(sums, DType::F32), b.scalar(DType::F32, 0.01));
      return {rounded(b, b.create(OpKind::Pool, {y}, pool), {scale}, t)};
    };
  };
  for (const DType t : {DType::I8, DType::U8})
    check(Rewrite(kPass, graph(t, 0.25F, ReduceOp::Max)), "q_conv cast mul quantize pool");
  CHECK_FALSE(Rewrite(kPass, graph(DType::I8, -0.25F, ReduceOp::Max)).result.changed);
  CHECK_FALSE(Rewrite(kPass, graph(DType::I8, 0.25F, ReduceOp::Mean)).result.changed);
}

TEST_CASE("the second operand of a matmul is rounded before it is transposed, whatever it is") {
  const auto product_by = [](Builder& b, ValueId codes) {
    return b.create(OpKind::QMatMul, {b.input("x", tensor_type(DType::I8, {7, 6})), codes});
  };
  const auto turned = [](Builder& b) { return b.transpose(f32_input(b, "y", {5, 6}), {1, 0}); };
  check(Rewrite(kPass, [&](Builder& b) -> std::vector<ValueId> { return {product_by(b, rounded(b, turned(b), {0.25F}))}; }),
        "quantize transpose q_matmul");
  // Keys that were rounded, transposed and scaled.
  check(Rewrite(kPass,
                [&](Builder& b) -> std::vector<ValueId> {
                  const ValueId keys = b.transpose(b.input("keys", tensor_type(DType::I8, {5, 6})), {1, 0}),
                                s = b.scalar(DType::F32, 0.1);
                  const ValueId floats = b.create(OpKind::Dequantize, {keys, s}, QuantAttrs{0, 0, DType::F32, true});
                  return {product_by(b, rounded(b, b.mul(floats, s), {0.25F}))};
                }),
        "dequantize mul quantize transpose q_matmul");
  const Rewrite shared(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId v = turned(b);
    return {product_by(b, rounded(b, v, {1})), b.unary(OpKind::Abs, v)};
  });
  CHECK_FALSE(shared.result.changed);
  CHECK_FALSE(Rewrite(kPass, [&](Builder& b) -> std::vector<ValueId> { return {rounded(b, turned(b), {1})}; }).result.changed);
}

TEST_CASE("long chains of elementwise nodes end the search") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    ValueId v = b.transpose(product(b), {1, 0});
    for (int i = 0; i < 40; ++i) v = b.unary(OpKind::Abs, v);
    return {rounded(b, v, {0.25F})};
  });
  CHECK_FALSE(r.result.changed);
}

TEST_CASE("rounding rises above a nearest resize that enlarges") {
  const auto resized = [](Dim size) {
    return [=](Builder& b) -> std::vector<ValueId> {
      ResizeAttrs a;
      a.sizes = {1, 2, 8, size};
      const ValueId y = b.unary(OpKind::Exp, f32_input(b, "x", {1, 2, 4, 5}));
      return {rounded(b, b.create(OpKind::Resize, {y}, a), {0.125F}, DType::U8)};
    };
  };
  check(Rewrite(kPass, resized(10)), "exp quantize resize");
  CHECK_FALSE(Rewrite(kPass, resized(2)).result.changed);
}

TEST_CASE("a pair whose codes are only reshaped meets before an output, not before an elementwise node") {
  const auto split = [](bool elementwise) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId codes = b.reshape(rounded(b, f32_input(b, "x", {4, 6}), {0.25F}), {2, 12});
      const ValueId v = dequantized(b, codes, 0.25F);
      return {elementwise ? b.unary(OpKind::Exp, v) : v};
    };
  };
  check(Rewrite(kPass, split(false)), "quantize dequantize reshape");
  CHECK_FALSE(Rewrite(kPass, split(true)).result.changed);
}

TEST_CASE("a pair around a transpose of what no kernel rounds is one pair after it") {
  const auto turned = [](bool computed) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "x", {4, 6}), v = computed ? b.unary(OpKind::Exp, x) : x;
      return {dequantized(b, b.transpose(rounded(b, v, {0.25F}), {1, 0}), 0.25F)};
    };
  };
  check(Rewrite(kPass, turned(false)), "transpose quantize dequantize");
  CHECK_FALSE(Rewrite(kPass, turned(true)).result.changed);
}

TEST_CASE("codes are quantized again before they are pooled") {
  // Pools of one another, which are concatenated with what is pooled.
  const auto pyramid = [](float second, bool tap, int64_t dilation = 1) {
    return [=](Builder& b) -> std::vector<ValueId> {
      PoolAttrs pool;
      pool.kernel = {3, 3}, pool.strides = {1, 1}, pool.dilations = {dilation, dilation};
      pool.pads_begin = pool.pads_end = pool.dilations;
      const ValueId x = b.unary(OpKind::Exp, f32_input(b, "x", {1, 2, 6, 6}));
      std::vector<ValueId> codes{rounded(b, x, {0.04F}, DType::U8)}, again;
      for (int i = 0; i < 2; ++i) codes.push_back(b.create(OpKind::Pool, {codes.back()}, pool));
      for (ValueId v : codes) again.push_back(rounded(b, dequantized(b, v, 0.04F), {second}, DType::U8));
      std::vector<ValueId> results{b.concat(again, 1)};
      if (tap) results.push_back(codes[1]);
      return results;
    };
  };
  check(Rewrite(kPass, pyramid(0.05F, false)), "exp quantize dequantize quantize pool pool concat");
  CHECK_FALSE(Rewrite(kPass, pyramid(-0.05F, false)).result.changed);
  CHECK_FALSE(Rewrite(kPass, pyramid(0.05F, false, 2)).result.changed);  // windows may have only padding
  CHECK(Rewrite(kPass, pyramid(0.05F, true)).left() == "exp quantize pool dequantize quantize dequantize quantize pool concat");
}

TEST_CASE("codes that are pooled several times are quantized again, by several numbers, after that") {
  const auto pyramid = [](float second) {
    return [=](Builder& b) -> std::vector<ValueId> {
      PoolAttrs pool;
      pool.kernel = {3, 3}, pool.strides = {1, 1}, pool.dilations = pool.pads_begin = pool.pads_end = {1, 1};
      ValueId v = rounded(b, b.unary(OpKind::Exp, f32_input(b, "x", {1, 2, 6, 6})), {0.04F}, DType::U8);
      float scale = 0.04F;
      std::vector<ValueId> results;
      for (const float next : {second, 0.06F}) {
        v = b.create(OpKind::Pool, {v}, pool);
        results.push_back(rounded(b, dequantized(b, v, scale), {0.07F}, DType::U8));
        v = rounded(b, dequantized(b, v, scale), {next}, DType::U8);
        scale = next;
      }
      results.push_back(b.create(OpKind::Pool, {v}, pool));
      return results;
    };
  };
  const Rewrite r(kPass, pyramid(0.05F));
  const Graph& g = r.after->main();
  size_t pools = 0;
  for (const NodeId n : g.nodes())
    if (g.op(n) == OpKind::Pool) CHECK(g.op(g.def(g.operand(n, 0))) == (pools++ == 0 ? OpKind::Quantize : OpKind::Pool));
  CHECK(pools == 3);
  check(r, r.left());
  CHECK_FALSE(Rewrite(kPass, pyramid(-0.05F)).result.changed);
}

TEST_CASE("rounding rises above the crop of a product, not where others read the product or a convolution the codes") {
  const auto cropped = [](int64_t rows, bool shared, bool convolved) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId y = product(b), codes = rounded(b, b.narrow(y, 0, 1, rows), {0.25F});
      std::vector<ValueId> results{codes};
      if (shared) results.push_back(b.unary(OpKind::Abs, y));
      if (convolved)
        results = {b.create(OpKind::QConv,
                            {b.reshape(codes, {1, Dim(rows), 6}), b.input("v", tensor_type(DType::I8, {2, rows, 3}))},
                            ConvAttrs{{1}, {0}, {0}, {1}, {}, 1})};
      return results;
    };
  };
  check(Rewrite(kPass, cropped(3, false, false)), "q_matmul cast mul add quantize narrow");
  for (const bool shared : {false, true}) CHECK_FALSE(Rewrite(kPass, cropped(2, shared, false)).result.changed);
  CHECK_FALSE(Rewrite(kPass, cropped(3, true, false)).result.changed);
  CHECK_FALSE(Rewrite(kPass, cropped(4, true, true)).result.changed);
}

TEST_CASE("codes are quantized again before they are padded or one slice is cut") {
  const auto moved = [](bool slice, bool filled, PadMode mode) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId codes = rounded(b, b.unary(OpKind::Exp, f32_input(b, "x", {4, 6})), {0.04F}, DType::U8);
      const ValueId fill = filled ? b.scalar(DType::U8, 25) : ValueId();
      const ValueId v = slice ? b.narrow(codes, 0, 1, 2)
                              : b.create(OpKind::Pad, {codes, fill}, PadAttrs{{Dim(1), Dim(0)}, {Dim(0), Dim(2)}, mode});
      return {rounded(b, dequantized(b, v, 0.04F), {0.05F}, DType::U8)};
    };
  };
  check(Rewrite(kPass, moved(true, false, PadMode::Constant)), "exp quantize dequantize quantize narrow");
  for (const bool filled : {false, true})
    check(Rewrite(kPass, moved(false, filled, PadMode::Constant)), "exp quantize dequantize quantize dequantize quantize pad");
  CHECK_FALSE(Rewrite(kPass, moved(false, false, PadMode::Reflect)).result.changed);
}
