#include "passes/passes.h"
#include "support/least_cosine.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

Rewrite rewritten(DType t, int64_t k, int64_t block, bool before, bool after) {
  return Rewrite(
      "round_activations",
      [=](Builder& b) {
        return std::vector{
            CodesOf{.n = 32, .block = block, .trans_b = true, .codes = t, .int8_x = before}(b, f32_input(b, "x", {3, k}))};
      },
      [=](PassRun& run) { run.options.int8_activations = after; }, 100);
}

bool rounds(const Rewrite& r) { return r.after->main().attrs<DequantMatMulAttrs>(r.find(OpKind::DequantMatMul)).int8_x; }

}  // namespace

TEST_CASE("rows of products with quantized weights are rounded where the user asks for it, or not") {
  for (const DType t : {DType::I4, DType::U4, DType::I8, DType::U8})
    for (const int64_t block : {0, 16}) {
      const Rewrite r = rewritten(t, 64, block, false, true);
      CHECK(rounds(r));
      CHECK(least_cosine(*r.before, *r.after) >= 0.999);
      REQUIRE(r.run.notes.size() == 1);
      CHECK(r.run.notes[0].to == "i8");
    }
  CHECK_FALSE(rounds(rewritten(DType::I8, 64, 16, true, false)));
}

TEST_CASE("rows that multiply 8-bit floats are not rounded") {
  const Rewrite r = rewritten(DType::F8E4M3FN, 64, 16, false, true);
  CHECK_FALSE(rounds(r));
  CHECK(r.first_decline() == "float_values");
}

TEST_CASE("a model without quantized weights is warned of") {
  const auto warnings = [](bool int8) {
    const Rewrite r(
        "round_activations",
        [](Builder& b) {
          return std::vector{b.matmul(f32_input(b, "x", {3, 4}), f32_param(b, "w", {4, 5}))};
        },
        [=](PassRun& run) { run.options.int8_activations = int8; }, 0);
    return r.run.diagnostics.text();
  };
  CHECK(warnings(true).find("--activations int8 changes nothing") != std::string::npos);
  CHECK(warnings(false).empty());
}
