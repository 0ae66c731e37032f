#include "support/norm_region.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_shared_region";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

// Heads [2,count,3,4] of columns of p [2,3,32].
ValueId heads(Builder& b, ValueId p, int64_t first, int64_t count) {
  return b.transpose(b.reshape(b.narrow(p, 2, first * 4, count * 4), {2, 3, Dim(count), 4}), {0, 2, 1, 3});
}

// round(x * cos / scale) as 8-bit integers. `cos` does not vary over heads.
ValueId scaled(Builder& b, ValueId x, ValueId cos, double scale) {
  FusionAttrs a;
  a.steps = {{OpKind::Mul, DType::F32, {0, 1, kNone}},
             {OpKind::Div, DType::F32, {kStep, 2, kNone}},
             {OpKind::Round, DType::F32, {kStep | 1, kNone, kNone}},
             {OpKind::Clamp, DType::F32, {kStep | 2, kNone, kNone}, ClampAttrs{-128, 127}},
             {OpKind::Cast, DType::I8, {kStep | 3, kNone, kNone}}};
  return b.create(OpKind::ElementwiseRegion, {x, cos, b.scalar(DType::F32, scale)}, a);
}

size_t count(const Rewrite& r, OpKind op) {
  size_t all = 0;
  for (NodeId n : r.after->main().nodes()) all += r.after->main().op(n) == op;
  return all;
}

void check(const Rewrite& r, OpKind op, bool merged) {
  CHECK(count(r, op) == (merged ? 1 : 2));
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("fuse_shared_region: queries and keys with scales of their own, in any order") {
  for (const bool turned : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId p = f32_input(b, "p", {2, 3, 32}), cos = f32_input(b, "cos", {3, 4});
      const ValueId x = turned ? heads(b, p, 4, 2) : heads(b, p, 0, 4), y = turned ? heads(b, p, 0, 4) : heads(b, p, 4, 2);
      const auto product = [&](ValueId v) { return b.create(OpKind::QMatMul, {v, b.transpose(v, {0, 1, 3, 2})}); };
      return {product(scaled(b, x, cos, 0.02)), product(scaled(b, y, cos, 0.5))};
    });
    check(r, OpKind::ElementwiseRegion, true);
  }
}

TEST_CASE("fuse_shared_region: norms of heads by rows of weights, and halves of them") {
  const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
    const ValueId p = f32_input(b, "p", {2, 3, 32});
    const Attrs norm =
        test::reduce_region({"mul(i0,i0):f32", "reduce_mean(s0):f32", "sqrt(s1):f32", "div(i0,s2):f32", "mul(s3,i1):f32"}, {3});
    const auto part = [&](int64_t first, int64_t count, std::string_view gamma) {
      return b.create(OpKind::ReduceRegion, {heads(b, p, first, count), b.param(gamma, tensor_type(DType::F32, {4}))}, norm);
    };
    const auto turned = [&](ValueId x, double scale) {
      ConcatRegionAttrs a;
      a.steps = {{OpKind::Neg, DType::F32, {0, kNone, kNone}},
                 {OpKind::Mul, DType::F32, {kStep, 2, kNone}},
                 {OpKind::Mul, DType::F32, {1, 2, kNone}}};
      a.axis = 3;
      a.parts = {1, 2};
      return b.create(OpKind::ConcatRegion, {b.narrow(x, 3, 2, 2), b.narrow(x, 3, 0, 2), b.scalar(DType::F32, scale)}, a);
    };
    const auto product = [&](ValueId v) { return b.matmul(v, v, false, true); };
    return {product(turned(part(0, 4, "g"), 0.5)), product(turned(part(4, 2, "h"), 0.25))};
  });
  check(r, OpKind::ReduceRegion, true);
  CHECK(count(r, OpKind::ConcatRegion) == 1);
}

TEST_CASE("fuse_shared_region: other steps, other slices, and what varies over heads") {
  const auto check_two = [](auto make) { check(Rewrite(kPass, make), OpKind::ElementwiseRegion, false); };
  // Slices that are not adjacent.
  check_two([](Builder& b) -> std::vector<ValueId> {
    const ValueId p = f32_input(b, "p", {2, 3, 32}), cos = f32_input(b, "cos", {3, 4});
    return {scaled(b, heads(b, p, 0, 2), cos, 0.02), scaled(b, heads(b, p, 4, 2), cos, 0.5)};
  });
  // A table for each head, and tables of their own.
  check_two([](Builder& b) -> std::vector<ValueId> {
    const ValueId p = f32_input(b, "p", {2, 3, 32}), cos = f32_input(b, "cos", {2, 1, 4});
    return {scaled(b, heads(b, p, 0, 2), cos, 0.02), scaled(b, heads(b, p, 2, 2), cos, 0.5)};
  });
  check_two([](Builder& b) -> std::vector<ValueId> {
    const ValueId p = f32_input(b, "p", {2, 3, 32});
    return {scaled(b, heads(b, p, 0, 2), f32_input(b, "cos", {3, 4}), 0.02),
            scaled(b, heads(b, p, 2, 2), f32_input(b, "sin", {3, 4}), 0.02)};
  });
  // A reader needs its slice in contiguous memory.
  check_two([](Builder& b) -> std::vector<ValueId> {
    const ValueId p = f32_input(b, "p", {2, 3, 32}), cos = f32_input(b, "cos", {3, 4});
    const ValueId x = scaled(b, heads(b, p, 0, 2), cos, 0.02), y = scaled(b, heads(b, p, 2, 2), cos, 0.5);
    return {b.reduce(ReduceOp::Max, x, {1}, false), b.reduce(ReduceOp::Max, y, {1}, false)};
  });
  // The slices are not whole after the reshape.
  check_two([](Builder& b) -> std::vector<ValueId> {
    const ValueId p = f32_input(b, "p", {2, 3, 32}), one = b.scalar(DType::F32, 1);
    const auto flat = [&](int64_t first, int64_t count) { return b.reshape(b.narrow(p, 2, first, count), {Dim(3 * count), 2}); };
    return {scaled(b, flat(0, 8), one, 0.02), scaled(b, flat(8, 16), one, 0.5)};
  });
}
