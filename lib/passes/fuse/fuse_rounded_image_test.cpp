#include "support/conv_steps.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_rounded_image";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

struct Case {
  DType to = DType::U8;
  double zero = 3;        // of the rounding; 0: none
  double subtracted = 3;  // by the convolution
  double low = 0;
  int64_t groups = 1;
  bool steps = true, read_twice = false, doubled = false, row = false;  // row: windows along one axis

  std::vector<ValueId> operator()(Builder& b) const {
    const ValueId x = row ? f32_input(b, "x", {1, 4, 6}) : f32_input(b, "x", {1, 4, 6, 6}), scale = num(b, 0.05),
                  z = b.scalar(to, subtracted);
    FusionAttrs a;
    std::vector<ValueId> operands{x, scale};
    a.steps = {{doubled ? OpKind::Mul : OpKind::Div, DType::F32, {0, 1, kNone}},
               {OpKind::Round, DType::F32, {kStep, kNone, kNone}}};
    if (zero != 0) {
      operands.push_back(zero == subtracted ? b.cast(z, DType::F32) : num(b, zero));
      a.steps.push_back({OpKind::Add, DType::F32, {kStep | 1, 2, kNone}});
    }
    const auto last = [&] { return static_cast<uint16_t>(kStep | (a.steps.size() - 1)); };
    a.steps.push_back({OpKind::Clamp, DType::F32, {last(), kNone, kNone}, ClampAttrs{low, low + 255}});
    a.steps.push_back({OpKind::Cast, to, {last(), kNone, kNone}});
    const ValueId codes = b.create(OpKind::ElementwiseRegion, operands, a);
    std::vector<Dim> window{Dim(4), Dim(4 / groups), Dim(3), Dim(3)};
    ConvAttrs conv{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {}, groups};
    if (row) {
      window.pop_back();
      for (auto* list : {&conv.strides, &conv.pads_begin, &conv.pads_end, &conv.dilations}) list->pop_back();
    }
    const ValueId w = b.input("w", tensor_type(DType::I8, window));
    const ValueId zero_point = subtracted == 0 ? ValueId() : z;
    std::vector<ValueId> results;
    if (steps) {
      const std::vector<RegionStep> after{{OpKind::QConv, DType::I32, {kNone, kNone, kNone}},
                                          {OpKind::Cast, DType::F32, {kStep, kNone, kNone}},
                                          {OpKind::Mul, DType::F32, {kStep | 1, 4, kNone}}};
      results = {
          b.create(OpKind::FusedQConv,
                   {codes, w, zero_point, ValueId(), f32_input(b, "s", row ? std::vector<Dim>{4, 1} : std::vector<Dim>{4, 1, 1})},
                   test::conv_steps(conv, after))};
    } else {
      results = {b.create(OpKind::QConv, {codes, w, zero_point}, conv)};
    }
    if (read_twice) results.push_back(codes);
    return results;
  }
};

}  // namespace

TEST_CASE("fuse_rounded_image: a convolution with and without steps, with and without a zero point") {
  for (DType t : {DType::U8, DType::I8})
    for (bool steps : {false, true})
      for (double zero : {0.0, 3.0}) {
        Rewrite r(kPass, Case{.to = t, .zero = zero, .subtracted = zero, .low = t == DType::U8 ? 0.0 : -128.0, .steps = steps});
        CHECK((r.left() == "fused_q_conv" || r.left() == "cast fused_q_conv"));
        const Graph& g = r.after->main();
        const NodeId n = r.find(OpKind::FusedQConv);
        REQUIRE(n.valid());
        CHECK(g.dtype(g.operand(n, 0)) == DType::F32);
        CHECK(g.attrs<FusionAttrs>(n).steps.size() == (steps ? 3 : 1));
        CHECK(r.run.decisions.at(0).fused);
      }
}

TEST_CASE("fuse_rounded_image: another zero point, other steps and other limits stay") {
  CHECK(Rewrite(kPass, Case{.zero = 4}).left() == "elementwise_region fused_q_conv");
  CHECK(Rewrite(kPass, Case{.zero = 0}).left() == "elementwise_region fused_q_conv");
  CHECK(Rewrite(kPass, Case{.doubled = true}).find(OpKind::ElementwiseRegion).valid());
  CHECK(Rewrite(kPass, Case{.low = -1}).find(OpKind::ElementwiseRegion).valid());
}

TEST_CASE("fuse_rounded_image: an image with other readers, and one of single channels, stay") {
  Rewrite twice(kPass, Case{.read_twice = true});
  CHECK(twice.find(OpKind::ElementwiseRegion).valid());
  CHECK(twice.first_decline() == "multi_consumer");
  Rewrite depthwise(kPass, Case{.groups = 4});
  CHECK(depthwise.find(OpKind::ElementwiseRegion).valid());
  CHECK(depthwise.first_decline() == "groups");
}

TEST_CASE("fuse_rounded_image: windows of single channels along one axis on CPU threads, and all of them on a grid") {
  CHECK(Rewrite(kPass, Case{.groups = 4, .row = true}).left() == "fused_q_conv");
  for (const bool row : {false, true}) {
    const Rewrite grid(kPass, Case{.groups = 4, .row = row}, [](PassRun& run) { run.target.threads = false; });
    CHECK(grid.left() == "fused_q_conv");
  }
}

TEST_CASE("fuse_rounded_image: not beyond the operands of the target") {
  Rewrite r(kPass, Case{}, [](PassRun& run) { run.target.region_max_inputs = 5; });
  CHECK(r.first_decline() == "operand_limit");
}
