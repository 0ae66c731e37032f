#include <doctest/doctest.h>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_norm_rope";

struct Form {
  AttentionLayout layout = AttentionLayout::Packed;
  int64_t rotated = 4;
  bool shift = false, tap = false, scale = true;
  DType of_heads = DType::F32;  // type of the heads; the scale stays f32
};

// Two heads of four elements.
Rewrite::Build normalised(Form f) {
  return [f](Builder& b) {
    const bool packed = f.layout == AttentionLayout::Packed, inner = f.layout != AttentionLayout::BHSD;
    const std::vector<Dim> heads{2, inner ? 3 : 2, inner ? 2 : 3, 4};
    ValueId x = f32_input(b, "t", packed ? std::vector<Dim>{2, 3, 8} : heads);
    if (packed) x = b.reshape(x, heads);
    x = b.cast(x, f.of_heads);
    const ValueId n =
        b.create(OpKind::RmsNorm, {x, f.scale ? f32_param(b, "g", {4}) : ValueId(), f.shift ? f32_param(b, "s", {4}) : ValueId()},
                 NormAttrs{3, 1e-3});
    const ValueId rows = packed ? b.reshape(n, {2, 3, 8}) : n;
    const ValueId cos = b.cast(f32_input(b, "cos", {3, f.rotated}), f.of_heads);
    const ValueId sin = b.cast(f32_input(b, "sin", {3, f.rotated}), f.of_heads);
    std::vector<ValueId> out{b.create(OpKind::Rope, {rows, cos, sin}, RopeAttrs{4, f.rotated, RopeStyle::NeoX, f.layout})};
    if (f.tap) out.push_back(b.unary(OpKind::Neg, n));
    return out;
  };
}

}  // namespace

TEST_CASE("fuse_norm_rope: a norm of heads joins the rotation in every layout") {
  CHECK(Rewrite(kPass, normalised({})).left() == "rope");
  CHECK(Rewrite(kPass, normalised({.scale = false})).left() == "rope");
  for (AttentionLayout layout : {AttentionLayout::BSHD, AttentionLayout::BHSD})
    CHECK(Rewrite(kPass, normalised({.layout = layout})).left() == "rope");
}

TEST_CASE("fuse_norm_rope: heads of half precision keep a scale of f32") {
  CHECK(Rewrite(kPass, normalised({.of_heads = DType::F16}), {}, 3e-3).left() == "reshape cast cast cast reshape rope");
}

TEST_CASE("fuse_norm_rope: a shift, a partial rotation or another reader keeps the norm apart") {
  CHECK(Rewrite(kPass, normalised({.shift = true})).first_decline() == "norm_form");
  CHECK(Rewrite(kPass, normalised({.rotated = 2})).first_decline() == "partial_rotation");
  CHECK(Rewrite(kPass, normalised({.tap = true})).first_decline() == "multi_consumer");
}
