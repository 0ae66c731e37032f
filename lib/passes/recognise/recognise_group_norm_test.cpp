#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "recognise_group_norm";

struct Form {
  bool affine = true, tap = false;
  int64_t groups = 2;
  double scale = 1;
  std::vector<int64_t> gamma{4, 1, 1};
};

Rewrite::Build chain(Form f) {
  return [f](Builder& b) {
    const Dim n = b.dims().symbol("n");
    const ValueId x = f32_input(b, "x", {n, 4, 3, 5});
    const ValueId flat = b.reshape(x, {n, f.groups, 60 / f.groups});
    const auto filled = [&](double v) { return b.constant(make_splat(DType::F32, {f.groups}, element_bytes(DType::F32, v))); };
    const ValueId norm = b.create(OpKind::GroupNorm, {flat, filled(f.scale), filled(0)}, GroupNormAttrs{f.groups, 1e-5});
    ValueId y = b.reshape(norm, {n, 4, 3, 5});
    if (f.affine) y = b.add(b.mul(y, f32_param(b, "gamma", f.gamma)), f32_param(b, "beta", {1, 4, 1, 1}));
    std::vector<ValueId> out{y};
    if (f.tap) out.push_back(norm);
    return out;
  };
}

}  // namespace

TEST_CASE("recognise_group_norm: with and without scale and shift") {
  CHECK(Rewrite(kPass, chain({})).left() == "reshape reshape group_norm");
  CHECK(Rewrite(kPass, chain({.affine = false})).left() == "group_norm");
  const Rewrite r(kPass, chain({.gamma = {3, 1}}));  // a scale per image row stays
  CHECK(r.left() == "group_norm mul add");
}

TEST_CASE("recognise_group_norm: a scale a group, and a norm that others read, stay") {
  CHECK_FALSE(Rewrite(kPass, chain({.scale = 2})).result.changed);
  CHECK_FALSE(Rewrite(kPass, chain({.tap = true})).result.changed);
}

TEST_CASE("recognise_group_norm: Q/DQ pairs around the norm of groups") {
  const auto paired = [](bool tap) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const auto pair = [&](ValueId v, double scale) {
        const ValueId s = num(b, scale), z = b.scalar(DType::U8, 120);
        const ValueId codes = b.create(OpKind::Quantize, {v, s, z}, QuantAttrs{0, 0, DType::U8, true});
        return b.create(OpKind::Dequantize, {codes, s, z}, QuantAttrs{0, 0, DType::F32, true});
      };
      const ValueId x = f32_input(b, "x", {2, 4, 3, 5}), flat = pair(b.reshape(x, {2, 2, 30}), 0.04);
      const ValueId norm = pair(b.create(OpKind::GroupNorm, {flat, {}, {}}, GroupNormAttrs{2, 1e-5}), 0.03);
      const ValueId y = b.mul(b.reshape(norm, {2, 4, 3, 5}), f32_param(b, "gamma", {4, 1, 1}));
      return tap ? std::vector{y, norm} : std::vector{y};
    };
  };
  CHECK(Rewrite(kPass, paired(false)).left() == "quantize dequantize group_norm quantize dequantize mul");
  CHECK_FALSE(Rewrite(kPass, paired(true)).result.changed);
}
