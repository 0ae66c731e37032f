#include <doctest/doctest.h>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Case {
  bool transposed = false, second_reader = false, biased = false, codes = false;
  std::vector<ValueId> operator()(Builder& b) const {
    const ValueId x = f32_input(b, "x", {2, 3, 4});
    ValueId y = codes ? CodesOf{.n = 10, .block = 2, .trans_b = transposed, .zero = true}(b, x)
                      : b.matmul(x, transposed ? f32_param(b, "w", {10, 4}) : f32_param(b, "w", {4, 10}), false, transposed);
    if (biased) y = b.add(y, f32_param(b, "bias", {10}));
    std::vector<ValueId> out{b.create(OpKind::FusedSwiGLU, {y}, SwiGLUAttrs{transposed, {true, OpKind::Gelu, 0, 0}})};
    if (second_reader) out.push_back(b.unary(OpKind::Neg, y));
    return out;
  }
};

}  // namespace

TEST_CASE("a gate after a product becomes its end, in both orders") {
  for (bool transposed : {false, true}) {
    const Rewrite r("fuse_matmul_swiglu", Case{.transposed = transposed});
    CHECK(r.left() == "fused_matmul_swiglu");
    const auto& a = r.after->main().attrs<GatedMatMulAttrs>(r.find(OpKind::FusedMatMulSwiGLU));
    CHECK(a.gate_first == transposed);
    CHECK(a.trans_b == transposed);
    CHECK(a.act.op == OpKind::Gelu);
  }
}

TEST_CASE("a gate after a product by codes becomes its end") {
  for (bool transposed : {false, true}) {
    const Rewrite r("fuse_matmul_swiglu", Case{.transposed = transposed, .codes = true});
    CHECK(r.left() == "dequant_matmul");
    const auto& a = r.after->main().attrs<DequantMatMulAttrs>(r.find(OpKind::DequantMatMul));
    CHECK(a.gated);
    CHECK(a.gate_first == transposed);
    CHECK(a.act.op == OpKind::Gelu);
  }
  CHECK(Rewrite("fuse_matmul_swiglu", Case{.biased = true, .codes = true}).first_decline() == "biased");
}

TEST_CASE("a product that is read elsewhere or takes a bias keeps its gate apart") {
  const Rewrite shared("fuse_matmul_swiglu", Case{.second_reader = true});
  CHECK(shared.left() == "matmul fused_swiglu neg");
  CHECK(shared.first_decline() == "multi_consumer");
  const Rewrite biased("fuse_matmul_swiglu", Case{.biased = true});
  CHECK(biased.left() == "matmul add fused_swiglu");
  CHECK(biased.first_decline() == "biased");
}
