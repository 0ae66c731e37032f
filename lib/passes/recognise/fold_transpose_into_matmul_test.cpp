#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fold_transpose_into_matmul";

}  // namespace

TEST_CASE("fold_transpose_into_matmul: either operand, with and without batch axes") {
  const Rewrite weight(kPass, [](Builder& b) {
    return std::vector{b.matmul(f32_input(b, "x", {3, 8}), b.transpose(f32_param(b, "w", {4, 8}), {1, 0}))};
  });
  CHECK(weight.left() == "matmul");
  CHECK(weight.after->main().attrs<MatMulAttrs>(weight.find(OpKind::MatMul)).trans_b);
  const Rewrite both(kPass, [](Builder& b) {
    return std::vector{b.matmul(b.transpose(f32_input(b, "x", {2, 8, 3}), {0, 2, 1}), b.transpose(f32_input(b, "y", {2, 4, 8}), {0, 2, 1}))};
  });
  CHECK(both.left() == "matmul");
  const Rewrite flagged(kPass, [](Builder& b) {
    return std::vector{b.matmul(f32_input(b, "x", {3, 8}), b.transpose(f32_input(b, "w", {8, 4}), {1, 0}), false, true)};
  });
  CHECK(flagged.left() == "matmul");
  CHECK_FALSE(flagged.after->main().attrs<MatMulAttrs>(flagged.find(OpKind::MatMul)).trans_b);
}

TEST_CASE("fold_transpose_into_matmul: a transpose that is read elsewhere stays for the others") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId t = b.transpose(f32_input(b, "w", {4, 8}), {1, 0});
    return std::vector{b.matmul(f32_input(b, "x", {3, 8}), t), t};
  });
  CHECK(r.left() == "transpose matmul");
}

TEST_CASE("fold_transpose_into_matmul: other permutations stay") {
  const Rewrite r(kPass, [](Builder& b) {
    return std::vector{b.matmul(f32_input(b, "x", {2, 3, 5, 8}), b.transpose(f32_input(b, "y", {2, 6, 3, 8}), {0, 2, 3, 1}))};
  });
  CHECK_FALSE(r.result.changed);
}
