#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_concat_parts";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

// Steps that divide by a number, round and clamp to 8 bits.
ValueId rounded(Builder& b, ValueId v, double scale) {
  FusionAttrs a;
  a.steps = {{OpKind::Div, DType::F32, {0, 1, kNone}},
             {OpKind::Round, DType::F32, {kStep, kNone, kNone}},
             {OpKind::Clamp, DType::F32, {kStep | 1, kNone, kNone}, ClampAttrs{-128, 127}},
             {OpKind::Cast, DType::I8, {kStep | 2, kNone, kNone}}};
  return b.create(OpKind::ElementwiseRegion, {v, b.scalar(DType::F32, scale)}, a);
}

void check(const Rewrite& r, std::string_view left, size_t results, OpKind op = OpKind::ConcatRegion) {
  CHECK(r.left() == left);
  const NodeId region = r.find(op);
  REQUIRE(region.valid());
  CHECK(r.after->main().result_count(region) == results);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("fuse_concat_parts: parts of one shape, each with its own scale, and a part that is no region") {
  for (const int64_t axis : {0, 1, 2}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "x", {2, 3, 4}), y = f32_input(b, "y", {2, 3, 4});
      const ValueId codes = b.input("codes", tensor_type(DType::I8, {2, 3, 4}));
      return {b.concat(std::vector{rounded(b, x, 0.5), codes, rounded(b, y, 0.03)}, axis)};
    });
    check(r, "concat_region", 1);
    CHECK(r.run.decisions.at(0).launches_saved == 2);
  }
}

TEST_CASE("fuse_concat_parts: the halves of a rotation, and what reads them") {
  const Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    const ValueId x = f32_input(b, "x", {2, 3, 8}), sin = f32_input(b, "sin", {3, 8});
    const ValueId turned = b.concat(std::vector{b.unary(OpKind::Neg, b.narrow(x, 2, 4, 4)), b.narrow(x, 2, 0, 4)}, 2);
    FusionAttrs a;
    a.steps = {{OpKind::Mul, DType::F32, {0, 1, kNone}},
               {OpKind::Mul, DType::F32, {2, 3, kNone}},
               {OpKind::Add, DType::F32, {kStep, kStep | 1, kNone}}};
    return {b.create(OpKind::ElementwiseRegion, {turned, sin, x, b.scalar(DType::F32, 0.5)}, a)};
  });
  check(r, "narrow narrow narrow narrow concat_region", 1);
}

TEST_CASE("fuse_concat_parts: operands that do not vary along the axis, and symbolic sizes") {
  const Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    const Dim n = b.module().dims.symbol("n");
    const ValueId x = f32_input(b, "x", {n, 4}), y = f32_input(b, "y", {n, 4}), column = f32_input(b, "c", {n, 1});
    return {b.mul(b.concat(std::vector{b.unary(OpKind::Abs, x), b.unary(OpKind::Neg, y)}, 1), column)};
  });
  check(r, "concat_region", 1);
}

// Dequantizes codes.
ValueId widened(Builder& b, std::string_view name, std::vector<Dim> dims, double scale) {
  FusionAttrs a;
  a.steps = {{OpKind::Cast, DType::F32, {0, kNone, kNone}}, {OpKind::Mul, DType::F32, {kStep, 1, kNone}}};
  return b.create(OpKind::ElementwiseRegion,
                  {b.input(name, tensor_type(DType::U8, std::move(dims))), b.scalar(DType::F32, scale)}, a);
}

TEST_CASE("fuse_concat_parts: parts of any sizes, and what reads them") {
  for (const bool reader : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId all = b.concat(
          std::vector{widened(b, "x", {2, 3, 5}, 0.5), f32_input(b, "z", {2, 2, 5}), widened(b, "y", {2, 1, 5}, 0.25)}, 1);
      return {reader ? b.mul(all, f32_input(b, "c", {6, 5})) : all};
    });
    check(r, reader ? "narrow narrow narrow concat_region" : "concat_region", 1);
  }
}

TEST_CASE("fuse_concat_parts: several elementwise nodes read parts that nobody computes") {
  const auto left = [](bool whole) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId all = b.concat(std::vector{f32_input(b, "x", {3, 1, 4}), f32_input(b, "y", {3, 2, 4})}, 1);
      std::vector<ValueId> out{rounded(b, all, 0.5), rounded(b, all, 0.02)};
      if (whole) out.push_back(all);
      return out;
    });
    if (!whole) check(r, "concat_region", 2);
    return r.left();
  };
  CHECK(left(false) == "concat_region");
  CHECK(left(true) == "concat elementwise_region elementwise_region");
}

TEST_CASE("fuse_concat_parts: images of convolutions are concatenated before if their steps differ in numbers alone") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId all = b.concat(std::vector{widened(b, "x", {2, 3, 5, 5}, 0.5), widened(b, "y", {2, 1, 5, 5}, 0.25)}, 1);
    return {b.create(OpKind::Conv, {all, f32_input(b, "w", {2, 4, 1, 1})}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1})};
  });
  check(r, "concat reshape expand reshape concat elementwise_region conv", 1, OpKind::ElementwiseRegion);
}

TEST_CASE("fuse_concat_parts: parts of one shape beside images, as floats and as codes") {
  for (const bool codes : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "x", {2, 3, 5, 5}), y = f32_input(b, "y", {2, 3, 5, 5}), z = f32_input(b, "z", {2, 3, 5, 5});
      const ConvAttrs one{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1};
      if (codes) {
        const ValueId all = b.concat(std::vector{rounded(b, x, 0.5), rounded(b, y, 0.02)}, 1);
        return {b.create(OpKind::QConv, {all, b.input("w", tensor_type(DType::I8, {2, 6, 1, 1}))}, one)};
      }
      const ValueId all = b.concat(std::vector{b.unary(OpKind::Neg, x), z, b.unary(OpKind::Abs, y)}, 1);
      return {b.create(OpKind::Conv, {all, f32_input(b, "w", {2, 9, 1, 1})}, one)};
    });
    check(r, codes ? "concat_region q_conv" : "elementwise_region concat conv", codes ? 1 : 2,
          codes ? OpKind::ConcatRegion : OpKind::ElementwiseRegion);
  }
}

TEST_CASE("fuse_concat_parts: codes of images, of several sizes, beside a part that is copied") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId z = b.input("z", tensor_type(DType::I8, {2, 2, 5, 5})), w = b.input("w", tensor_type(DType::I8, {2, 5, 1, 1}));
    const ValueId all = b.concat(std::vector{rounded(b, f32_input(b, "x", {2, 3, 5, 5}), 0.5), z}, 1);
    return {b.create(OpKind::QConv, {all, w}, ConvAttrs{{1, 1}, {0, 0}, {0, 0}, {1, 1}, {}, 1})};
  });
  check(r, "concat_region q_conv", 1);
}

TEST_CASE("fuse_concat_parts: parts with other readers, and the limits of the target") {
  const auto left = [](int64_t columns, bool shared, uint32_t inputs = 32) {
    const Rewrite r(
        kPass,
        [&](Builder& b) -> std::vector<ValueId> {
          const ValueId p = b.unary(OpKind::Abs, f32_input(b, "x", {3, 4})),
                        q = b.unary(OpKind::Neg, f32_input(b, "y", {3, Dim(columns)}));
          std::vector<ValueId> out{b.concat(std::vector{p, q}, 1)};
          if (shared) out.push_back(p);
          return out;
        },
        [&](PassRun& run) { run.target.region_max_inputs = inputs; });
    return r.left();
  };
  CHECK(left(4, false) == "concat_region");
  CHECK(left(5, false) == "concat_region");
  CHECK(left(4, true) == "abs concat_region");
  CHECK(left(4, false, 2) == "abs neg concat");
  CHECK(left(5, false, 1) == "abs neg concat");
}
