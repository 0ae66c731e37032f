#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Form {
  bool square_by_mul = false, divide = true, twice = false, affine = true, swap = false;
  std::vector<int64_t> axes{2};
  double exponent = 2;
  std::vector<int64_t> gamma{8};
};

Rewrite::Build chain(Form f) {
  return [f](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 3, 8});
    auto mean = [&](ValueId v) { return b.reduce(ReduceOp::Mean, v, f.axes, true); };
    const ValueId m = mean(x), d = b.sub(x, m), d2 = f.twice ? b.sub(x, m) : d;
    const ValueId square = f.square_by_mul ? b.mul(d2, d2) : b.create(OpKind::Pow, {d2, num(b, f.exponent)});
    const ValueId var = mean(square), eps = num(b, 1e-5), s = b.unary(OpKind::Sqrt, f.swap ? b.add(eps, var) : b.add(var, eps));
    ValueId y = f.divide ? b.div(d, s) : b.mul(b.unary(OpKind::Recip, s), d);
    if (f.affine) {
      const ValueId gamma = f32_param(b, "gamma", f.gamma), beta = f32_param(b, "beta", f.gamma);
      y = f.swap ? b.add(beta, b.mul(gamma, y)) : b.add(b.mul(y, gamma), beta);
    }
    return std::vector{y};
  };
}

}  // namespace

TEST_CASE("a layer norm chain becomes one node, in every spelling") {
  CHECK(Rewrite("recognise_layer_norm", chain({})).left() == "layer_norm");
  CHECK(Rewrite("recognise_layer_norm", chain({.square_by_mul = true, .divide = false})).left() == "layer_norm");
  CHECK(Rewrite("recognise_layer_norm", chain({.twice = true, .swap = true})).left() == "layer_norm");
  CHECK(Rewrite("recognise_layer_norm", chain({.affine = false})).left() == "layer_norm");
  CHECK(Rewrite("recognise_layer_norm", chain({.gamma = {1, 1, 8}})).left() == "reshape reshape layer_norm");
  const Rewrite two_axes("recognise_layer_norm", chain({.axes = {1, 2}, .gamma = {3, 8}}));
  CHECK(two_axes.left() == "layer_norm");
  CHECK(two_axes.after->main().attrs<NormAttrs>(two_axes.find(OpKind::LayerNorm)).axis == 1);
  REQUIRE(two_axes.run.decisions.size() == 1);
  CHECK(two_axes.run.decisions[0].fused);
  CHECK(two_axes.run.decisions[0].members.size() == 9);
}

TEST_CASE("what is not a layer norm stays") {
  CHECK_FALSE(Rewrite("recognise_layer_norm", chain({.affine = false, .axes = {1}})).result.changed);
  CHECK_FALSE(Rewrite("recognise_layer_norm", chain({.exponent = 3})).result.changed);
  // scale and shift outside of the normalised axes remain separate
  CHECK(Rewrite("recognise_layer_norm", chain({.gamma = {3, 8}})).left() == "layer_norm mul add");
  CHECK(Rewrite("recognise_layer_norm", chain({.gamma = {2, 1, 1}})).left() == "layer_norm mul add");
}

TEST_CASE("a layer norm whose scaled value is an output keeps that output") {
  const Rewrite r("recognise_layer_norm", [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 8});
    const ValueId d = b.sub(x, b.reduce(ReduceOp::Mean, x, {1}, true));
    const ValueId v = b.reduce(ReduceOp::Mean, b.mul(d, d), {1}, true);
    const ValueId scaled = b.mul(b.div(d, b.unary(OpKind::Sqrt, b.add(v, num(b, 1e-5)))), f32_param(b, "g", {8}));
    return std::vector{scaled, b.add(scaled, f32_param(b, "b", {8}))};
  });
  CHECK(r.left() == "layer_norm add");
}

TEST_CASE("a layer norm multiplied out becomes one node") {
  for (const bool gamma : {false, true})
    for (const bool swap : {false, true}) {
      const Rewrite r("recognise_layer_norm", [&](Builder& b) {
        const ValueId x = f32_input(b, "x", {2, 3, 8}), m = b.reduce(ReduceOp::Mean, x, {2}, true),
                      d = swap ? b.sub(m, x) : b.sub(x, m);
        ValueId inverse =
            b.unary(OpKind::Recip, b.unary(OpKind::Sqrt, b.add(b.reduce(ReduceOp::Mean, b.mul(d, d), {2}, true), num(b, 1e-3))));
        if (gamma) inverse = swap ? b.mul(f32_param(b, "gamma", {8}), inverse) : b.mul(inverse, f32_param(b, "gamma", {8}));
        const ValueId shift = b.sub(f32_param(b, "beta", {8}), swap ? b.mul(inverse, m) : b.mul(m, inverse));
        return std::vector{swap ? b.add(shift, b.mul(inverse, x)) : b.add(b.mul(x, inverse), shift)};
      });
      CHECK(r.left() == "layer_norm");
    }
  const Rewrite other("recognise_layer_norm", [](Builder& b) {  // subtracts a different mean
    const ValueId x = f32_input(b, "x", {2, 3, 8}), z = f32_input(b, "z", {2, 3, 8}), m = b.reduce(ReduceOp::Mean, x, {2}, true),
                  d = b.sub(x, m);
    const ValueId inverse = b.unary(OpKind::Rsqrt, b.add(b.reduce(ReduceOp::Mean, b.mul(d, d), {2}, true), num(b, 1e-3)));
    return std::vector{
        b.add(b.mul(x, inverse), b.sub(f32_param(b, "beta", {8}), b.mul(b.reduce(ReduceOp::Mean, z, {2}, true), inverse)))};
  });
  CHECK_FALSE(other.result.changed);
}
