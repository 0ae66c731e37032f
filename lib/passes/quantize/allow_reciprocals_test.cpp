#include "ir/region.h"
#include "passes/passes.h"
#include "support/conv_steps.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

struct Form {
  double scale = 0.02, low = 0, high = 255;
  DType zero = DType::U8;  // Bool: no zero point
  bool known = true, read_twice = false, result = false, splits = true;
};

// clamp(round(x / scale) + zero, low, high)
ValueId rounded(Builder& b, const Form& f) {
  FusionAttrs a;
  const auto add = [&](OpKind op, uint16_t x, uint16_t y = kNone) {
    a.steps.push_back({op, DType::F32, {x, y, kNone}});
    return static_cast<uint16_t>(kStep | (a.steps.size() - 1));
  };
  const uint16_t quotient = add(OpKind::Div, 0, 1);
  uint16_t y = add(OpKind::Round, quotient);
  if (f.zero != DType::Bool) y = add(OpKind::Add, y, 2);
  y = add(OpKind::Clamp, y);
  a.steps.back().attrs = ClampAttrs{f.low, f.high};
  if (f.read_twice) add(OpKind::Add, y, quotient);
  if (f.result) a.also = {0};
  std::vector<ValueId> operands{f32_input(b, "x", {6, 50})};
  operands.push_back(f.known ? b.reshape(b.scalar(DType::F32, f.scale), {1}) : f32_input(b, "scale", {}));
  if (f.zero != DType::Bool) operands.push_back(b.cast(b.scalar(f.zero, 3), DType::F32));
  return b.create(OpKind::ElementwiseRegion, operands, a);
}

bool marks(const Form& f) {
  const Rewrite r(
      "allow_reciprocals", [&](Builder& b) { return std::vector{rounded(b, f)}; },
      [&](PassRun& run) { run.target.splits_divisors = f.splits; });
  const auto& steps = r.after->main().attrs<FusionAttrs>(r.find(OpKind::ElementwiseRegion)).steps;
  CHECK((steps[0].alpha() != 0) == r.result.changed);
  return r.result.changed;
}

}  // namespace

TEST_CASE("divisions by known scales are marked where quotients are rounded and clamped") {
  CHECK(marks({}));
  CHECK(marks({.low = -128, .high = 127, .zero = DType::I8}));
  CHECK(marks({.zero = DType::Bool}));
  CHECK(marks({.scale = 0.5}));
}

TEST_CASE("divisions are not marked by unknown scales, for wide results, or where the quotient is read") {
  CHECK_FALSE(marks({.known = false}));
  CHECK_FALSE(marks({.high = 65535}));
  CHECK_FALSE(marks({.read_twice = true}));
  CHECK_FALSE(marks({.result = true}));
  CHECK_FALSE(marks({.splits = false}));
  CHECK_FALSE(marks({.scale = -0.02}));
}

TEST_CASE("convolutions and norms with steps are marked too") {
  const Rewrite r(
      "allow_reciprocals",
      [&](Builder& b) {
        const ValueId x = b.input("x", tensor_type(DType::U8, {1, 4, 6, 6})),
                      w = b.input("w", tensor_type(DType::I8, {3, 4, 1, 1}));
        const std::vector<RegionStep> steps = {{OpKind::QConv, DType::I32},
                                               {OpKind::Cast, DType::F32, {kStep | 0, kNone, kNone}},
                                               {OpKind::Div, DType::F32, {kStep | 1, 4, kNone}},
                                               {OpKind::Round, DType::F32, {kStep | 2, kNone, kNone}},
                                               {OpKind::Clamp, DType::F32, {kStep | 3, kNone, kNone}, ClampAttrs{0, 255}},
                                               {OpKind::Cast, DType::U8, {kStep | 4, kNone, kNone}}};
        const ConvAttrs conv{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1};
        const ValueId y =
            b.create(OpKind::FusedQConv, {x, w, {}, {}, b.scalar(DType::F32, 300.1)}, test::conv_steps(conv, steps));
        return std::vector{y};
      },
      [](PassRun& run) { run.target.splits_divisors = true; });
  CHECK(r.after->main().attrs<FusionAttrs>(r.find(OpKind::FusedQConv)).steps[2].alpha() == 1);
}
