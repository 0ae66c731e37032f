#include "passes/passes.h"
#include "support/least_cosine.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

Rewrite rewritten(const Rewrite::Build& build, const CastConfig& config, double rtol = 100) {
  return Rewrite(
      "scale_operands", build, [&](PassRun& run) { run.options.operand_cast = config; }, rtol);
}

std::vector<ValueId> two_products(Builder& b) {
  const ValueId x = f32_input(b, "x", {3, 64}), y = f32_input(b, "y", {5, 64});
  return {b.matmul(x, f32_param(b, "w", {64, 8})), b.matmul(x, y, false, true)};
}

}  // namespace

TEST_CASE("operands of products go through 8-bit floats once, with one scale or one for each block") {
  for (DType t : {DType::F8E4M3FN, DType::F8E5M2})
    for (const CastConfig& c : {CastConfig{t, 0, true}, CastConfig{t, 32, false, true}, CastConfig{t, 0}}) {
      const Rewrite r = rewritten(two_products, c);
      CHECK(r.run.notes.size() == 2);
      CHECK(least_cosine(*r.before, *r.after) >= (t == DType::F8E4M3FN ? 0.998 : 0.99));
      for (const PrecisionNote& n : r.run.notes) CHECK(n.to == name(t));
      const Graph& g = r.after->main();
      int64_t casts = 0;
      for (NodeId n : g.nodes()) casts += g.op(n) == OpKind::Cast && g.dtype(g.result(n)) == t;
      CHECK(casts == 2);
    }
}

TEST_CASE("a summed axis that blocks do not divide, and f64, stay") {
  const Rewrite r = rewritten(
      [](Builder& b) -> std::vector<ValueId> {
        return {b.matmul(f32_input(b, "x", {3, 20}), f32_input(b, "w", {20, 4}))};
      },
      {DType::F8E4M3FN, 32, false, true}, 1e-4);
  CHECK(r.left() == "matmul");
  CHECK(r.first_decline() == "block");
  const Rewrite wide = rewritten(
      [](Builder& b) -> std::vector<ValueId> {
        const auto in = [&](const char* name, std::vector<Dim> d) {
          return b.input(name, tensor_type(DType::F64, std::move(d)));
        };
        return {b.matmul(in("x", {3, 64}), in("w", {64, 4}))};
      },
      {DType::F8E4M3FN, 0, true}, 1e-4);
  CHECK(wide.left() == "matmul");
}
