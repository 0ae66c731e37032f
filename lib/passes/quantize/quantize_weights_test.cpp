#include "passes/passes.h"
#include "support/least_cosine.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Case {
  int64_t k = 64, n = 32;
  bool transposed = false, known = true;
  std::vector<ValueId> operator()(Builder& b) const {
    const std::vector<int64_t> dims = transposed ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
    const ValueId w = known ? f32_param(b, "w", dims) : b.param("w", tensor_type(DType::F32, {dims[0], dims[1]}));
    return {b.matmul(f32_input(b, "x", {3, k}), w, false, transposed)};
  }
};

// The tests compare results themselves.
Rewrite rewritten(const Case& c, const CastConfig& config, double rtol = 100) {
  return Rewrite(
      "quantize_weights", c, [&](PassRun& run) { run.options.weight_cast = config; }, rtol);
}

}  // namespace

TEST_CASE("weights become codes, in blocks, per column or with one scale, and the product stays near") {
  struct Format {
    DType dtype;
    double cosine;
  };
  for (const auto& [dtype, cosine] :
       {Format{DType::I8, 0.9999}, {DType::I4, 0.98}, {DType::F8E4M3FN, 0.999}, {DType::F8E5M2, 0.995}})
    for (bool transposed : {false, true})
      for (const CastConfig& c :
           {CastConfig{dtype, 16}, CastConfig{dtype, 0}, CastConfig{dtype, 0, true}, CastConfig{dtype, 24, false, true}}) {
        const Rewrite r = rewritten({.transposed = transposed}, c);
        CHECK(r.left() == "dequant_matmul");
        CHECK(least_cosine(*r.before, *r.after) >= cosine);
        const Graph& g = r.after->main();
        const NodeId n = r.find(OpKind::DequantMatMul);
        CHECK(g.dtype(g.operand(n, 1)) == dtype);
        CHECK(num_elements(g.type(g.operand(n, 2))) == (c.per_tensor ? 1 : c.block ? 32 * ((64 + c.block - 1) / c.block) : 32));
        REQUIRE(r.run.notes.size() == 1);
        CHECK(r.run.notes[0].to == name(dtype));
        CHECK(r.run.notes[0].reason.starts_with("weight, one scale "));
      }
}

TEST_CASE("codes of 8 bits are within half a step of the weight") {
  const Rewrite r = rewritten({}, {DType::I8, 16});
  const Module& m = *r.after;
  const Graph& g = m.main();
  const NodeId n = r.find(OpKind::DequantMatMul);
  const auto data = [&](size_t i) { return m.data[g.attrs<DataAttrs>(g.def(g.operand(n, i))).data]; };
  const Graph& before = r.before->main();
  const TensorData w =
      r.before->data[before.attrs<DataAttrs>(before.def(before.operand(before.def(before.outputs()[0]), 1))).data];
  for (int64_t row = 0; row < 32; ++row)
    for (int64_t p = 0; p < 64; ++p) {
      const double scale = element_as_double(data(2), row * 4 + p / 16);
      CHECK(std::abs(element_as_double(data(1), row * 64 + p) * scale - element_as_double(w, p * 32 + row)) <= scale * 0.5001);
    }
}

TEST_CASE("small weights and those without contents stay") {
  const Rewrite small = rewritten({.k = 8, .n = 4}, {DType::I8}, 1e-4), unknown = rewritten({.known = false}, {DType::I8}, 1e-4);
  CHECK(small.left() == "matmul");
  CHECK(small.first_decline() == "small");
  CHECK(unknown.left() == "matmul");
  CHECK(unknown.first_decline() == "no_contents");
}

TEST_CASE("a weight that is computed from others becomes codes of its contents") {
  const Rewrite r(
      "quantize_weights",
      [](Builder& b) {
        const ValueId w = b.mul(f32_param(b, "w", {64, 32}), f32_param(b, "scale", {1, 32}));
        return std::vector{b.matmul(f32_input(b, "x", {3, 64}), w)};
      },
      [](PassRun& run) {
        run.options.weight_cast = CastConfig{DType::I8, 0};
      },
      100);
  CHECK(r.left() == "dequant_matmul");
  CHECK(least_cosine(*r.before, *r.after) >= 0.9999);
}
