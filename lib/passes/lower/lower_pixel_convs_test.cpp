#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "lower_pixel_convs";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

struct Case {
  int64_t size = 1, pad = 0, kernel = 1;
  bool weight_zeros = false;  // a zero point for each channel

  // Sums times a scale per channel and an image, of which the floats and codes are results.
  std::vector<ValueId> operator()(Builder& b) const {
    const Dim n = b.dims().symbol("n");
    const ValueId x = b.input("x", tensor_type(DType::U8, {n, 6, Dim(size), Dim(size)}));
    const ValueId w = b.param("w", tensor_type(DType::I8, {5, 6, Dim(kernel), Dim(kernel)}));
    const ValueId zeros = weight_zeros ? b.param("wz", tensor_type(DType::I8, {5})) : ValueId();
    FusionAttrs a{{{OpKind::QConv, DType::I32, {kNone, kNone, kNone}, ConvAttrs{{1, 1}, {pad, pad}, {pad, pad}, {1, 1}, {}, 1}},
                   {OpKind::Cast, DType::F32, {kStep, kNone, kNone}},
                   {OpKind::Mul, DType::F32, {kStep | 1, 4, kNone}},
                   {OpKind::Add, DType::F32, {kStep | 2, 5, kNone}},
                   {OpKind::Div, DType::F32, {kStep | 3, 6, kNone}},
                   {OpKind::Round, DType::F32, {kStep | 4, kNone, kNone}},
                   {OpKind::Clamp, DType::F32, {kStep | 5, kNone, kNone}, ClampAttrs{0, 255}},
                   {OpKind::Cast, DType::U8, {kStep | 6, kNone, kNone}}},
                  {3}};
    const Dim left(size + 2 * pad - kernel + 1);
    const NodeId y = b.create_node(OpKind::FusedQConv,
                                   std::vector{x, w, b.scalar(DType::U8, 117), zeros, f32_param(b, "scales", {5, 1, 1}),
                                               f32_input(b, "r", {n, 5, left, left}), b.scalar(DType::F32, 0.5)},
                                   a);
    return {b.graph().result(y), b.graph().result(y, 1)};
  }
};

}  // namespace

TEST_CASE("lower_pixel_convs: windows of whole images become matmuls") {
  for (const int64_t size : {1, 3}) {
    const Rewrite r(kPass, Case{size, 0, size});
    CHECK(r.left() == (size == 1 ? "reshape reshape transpose reshape reshape fused_q_matmul reshape reshape"
                                 : "reshape reshape transpose reshape reshape fused_q_matmul reshape reshape"));
    for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
  }
}

TEST_CASE("lower_pixel_convs: integer convolutions without steps") {
  const Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    const ValueId x = b.input("x", tensor_type(DType::U8, {2, 6, 1, 1}));
    const ValueId w = b.param("w", tensor_type(DType::I8, {5, 6, 1, 1}));
    return {b.create(OpKind::QConv, {x, w, b.scalar(DType::U8, 3)}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1})};
  });
  CHECK(r.left() == "reshape reshape transpose q_matmul reshape");
  same_results(*r.before, *r.after, 1);
}

TEST_CASE("lower_pixel_convs: what stays") {
  CHECK(Rewrite(kPass, Case{3, 0, 1}).left() == "fused_q_conv");
  CHECK(Rewrite(kPass, Case{1, 1, 3}).left() == "fused_q_conv");
  CHECK(Rewrite(kPass, Case{1, 0, 1, true}).left() == "fused_q_conv");
}
