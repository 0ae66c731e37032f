#include <doctest/doctest.h>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Case {
  bool transposed = false, second_reader = false, codes = false;
  enum { None, Row, Whole } added = None;
  bool reshaped = false;  // before and after the addition
  std::vector<ValueId> operator()(Builder& b) const {
    const ValueId x = f32_input(b, "x", {2, 3, 4});
    ValueId y = codes ? CodesOf{.n = 10, .block = 2, .trans_b = transposed, .zero = true}(b, x)
                      : b.matmul(x, transposed ? f32_param(b, "w", {10, 4}) : f32_param(b, "w", {4, 10}), false, transposed);
    if (reshaped) y = b.reshape(y, {1, 6, 10});
    if (added != None) y = b.add(y, added == Row ? f32_param(b, "bias", {10}) : f32_input(b, "all", {2, 3, 10}));
    if (reshaped) y = b.reshape(y, {3, 2, 10});
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
}

TEST_CASE("a bias between the product and its gate is an operand, and reshapes of rows follow the gate") {
  for (bool codes : {false, true})
    for (bool transposed : {false, true}) {
      const Rewrite r("fuse_matmul_swiglu", Case{.transposed = transposed, .codes = codes, .added = Case::Row});
      CHECK(r.left() == (codes ? "dequant_matmul" : "fused_matmul_swiglu"));
      const Rewrite moved("fuse_matmul_swiglu", Case{.codes = codes, .added = Case::Row, .reshaped = true});
      CHECK(moved.left() == (codes ? "dequant_matmul reshape" : "fused_matmul_swiglu reshape"));
      CHECK(moved.run.decisions[0].members.size() == 3);
    }
}

TEST_CASE("a product that is read elsewhere or takes more than a bias keeps its gate apart") {
  const Rewrite shared("fuse_matmul_swiglu", Case{.second_reader = true});
  CHECK(shared.left() == "matmul fused_swiglu neg");
  CHECK(shared.first_decline() == "multi_consumer");
  const Rewrite added("fuse_matmul_swiglu", Case{.added = Case::Whole});
  CHECK(added.left() == "matmul add fused_swiglu");
  CHECK(added.first_decline() == "addend");
  CHECK(Rewrite("fuse_matmul_swiglu", Case{.codes = true, .added = Case::Whole}).first_decline() == "addend");
}
