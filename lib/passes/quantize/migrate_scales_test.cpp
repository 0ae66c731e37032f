#include <doctest/doctest.h>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "migrate_scales";

struct Form {
  OpKind op = OpKind::LayerNorm;
  bool scale = true, trans_b = false, tap = false;
  size_t channels = 4;
};

// A norm of four channels that two matmuls read.
Rewrite::Build normed(Form f) {
  return [f](Builder& b) {
    const ValueId gamma = f.scale ? f32_param(b, "g", {4}) : ValueId(), beta = f.scale ? f32_param(b, "be", {4}) : ValueId();
    const ValueId y = b.create(f.op, {f32_input(b, "x", {3, 4}), gamma, beta}, NormAttrs{1, 1e-5});
    b.graph().set_value_name(y, b.module().symbol("n"));
    const auto product = [&](std::string_view name) {
      return b.matmul(y, f32_param(b, name, f.trans_b ? std::vector<int64_t>{5, 4} : std::vector<int64_t>{4, 5}), false,
                      f.trans_b);
    };
    std::vector<ValueId> out{product("w"), product("other")};
    if (f.tap) out.push_back(b.unary(OpKind::Neg, y));
    return out;
  };
}

Rewrite run(Form f) {
  return {kPass, normed(f), [&](PassRun& r) {
            std::vector<double> scales{0.5, 3, 1, 20};
            scales.resize(f.channels, 2);
            r.options.calibration.emplace().channel_scales = {{"n", scales}};
          }};
}

}  // namespace

TEST_CASE("migrate_scales: the scale and shift of a norm are divided, and the weights that read it multiplied") {
  CHECK(run({}).left() == "div div layer_norm mul matmul mul matmul");
  CHECK(run({.op = OpKind::RmsNorm, .trans_b = true}).left() == "div div rms_norm mul matmul mul matmul");
  CHECK(run({.scale = false}).left() == "div layer_norm mul matmul mul matmul");
}

TEST_CASE("migrate_scales: a norm with another reader, or another number of channels, is an error of the record") {
  for (const Form f : {Form{.tap = true}, Form{.channels = 5}}) {
    const Rewrite r = run(f);
    CHECK_FALSE(r.result.changed);
    REQUIRE_FALSE(r.run.diagnostics.items().empty());
    CHECK(r.run.diagnostics.items()[0].code == Code::BadCalibration);
  }
}
