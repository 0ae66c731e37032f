#include "support/norm_region.h"
#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_reduced_parts";

// x / rms(x) * gamma over rows of 8, divided by a number for each head (`scale`) and rounded.
ValueId normalised(Builder& b, ValueId x, ValueId scale, ValueId gamma) {
  const Attrs a = test::reduce_region({"mul(i0,i0):f32", "reduce_mean(s0):f32", "sqrt(s1):f32", "div(i0,s2):f32",
                                       "mul(s3,i1):f32", "mul(s2,i2):f32", "div(s4,s5):f32", "round(s6):f32"},
                                      {b.graph().rank(x) - 1});
  return b.create(OpKind::ReduceRegion, {x, gamma, scale}, a);
}

// [-y2 * f, y1 * f] of the halves of rows.
NodeId turned(Builder& b, ValueId y1, ValueId y2, ValueId f, int64_t results = 1) {
  std::vector<int64_t> parts{1, 2};
  if (results > 1) parts.insert(parts.end(), {3, 0});
  return b.create_node(OpKind::ConcatRegion, std::array{y2, y1, f},
                       test::concat_region({"neg(i0):f32", "mul(s0,i2):f32", "mul(i1,i2):f32", "abs(i1):f32"},
                                           b.graph().rank(y1) - 1, results, parts));
}

void check(const Rewrite& r, bool fuses) {
  CHECK(r.result.changed == fuses);
  CHECK(r.find(OpKind::ReduceRegion).valid() != fuses);
  for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
}

}  // namespace

TEST_CASE("fuse_reduced_parts: the halves of normalised heads, turned on the way") {
  for (const bool turns : {false, true}) {
    const Rewrite r(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "x", {2, 3, 5, 8});
      ValueId y = normalised(b, x, f32_param(b, "scale", {5, 1}), f32_param(b, "gamma", {8}));
      if (turns) y = b.transpose(y, {0, 2, 1, 3});
      const ValueId table = f32_input(b, "table", turns ? std::vector<Dim>{3, 4} : std::vector<Dim>{5, 4});
      return {b.graph().result(turned(b, b.narrow(y, 3, 0, 4), b.narrow(y, 3, 4, 4), table))};
    });
    check(r, true);
    CHECK(r.run.decisions.at(0).launches_saved == 1);
  }
}

TEST_CASE("fuse_reduced_parts: several results, symbolic rows, and slices that are moved afterwards") {
  const Rewrite r(kPass, [](Builder& b) -> std::vector<ValueId> {
    const ValueId x = f32_input(b, "x", {b.module().dims.symbol("n"), 8});
    const ValueId y = normalised(b, x, b.scalar(DType::F32, 0.02), f32_param(b, "gamma", {8}));
    const NodeId n = turned(b, b.narrow(y, 1, 1, 3), b.narrow(y, 1, 4, 3), f32_input(b, "f", {}), 2);
    return {b.graph().result(n, 0), b.graph().result(n, 1)};
  });
  check(r, true);
  const Rewrite moved(kPass, [](Builder& b) -> std::vector<ValueId> {
    const ValueId x = f32_input(b, "x", {3, 5, 8});
    const ValueId y = normalised(b, x, f32_param(b, "scale", {3, 1, 1}), f32_param(b, "gamma", {5, 8}));
    const auto half = [&](int64_t start) { return b.transpose(b.narrow(y, 2, start, 4), {1, 0, 2}); };
    return {b.graph().result(turned(b, half(0), half(4), f32_input(b, "f", {3, 4})))};
  });
  check(moved, true);
}

TEST_CASE("fuse_reduced_parts: what stays") {
  const auto of = [](auto make) {
    return Rewrite(kPass, [&](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "x", {4, 8, 8});
      const ValueId y = normalised(b, x, b.scalar(DType::F32, 0.02), f32_param(b, "gamma", {8}));
      return make(b, y);
    });
  };
  const auto halves = [](Builder& b, ValueId y) {
    return b.graph().result(turned(b, b.narrow(y, 2, 0, 4), b.narrow(y, 2, 4, 4), f32_input(b, "f", {})));
  };
  // Another reader of the rows, slices along another axis, and rows along another axis.
  const Rewrite read = of([&](Builder& b, ValueId y) -> std::vector<ValueId> { return {halves(b, y), y}; });
  check(read, false);
  CHECK(read.first_decline() == "multi_consumer");
  check(of([&](Builder& b, ValueId y) -> std::vector<ValueId> {
          return {b.graph().result(turned(b, b.narrow(y, 1, 0, 2), b.narrow(y, 1, 2, 2), f32_input(b, "f", {})))};
        }),
        false);
  check(of([&](Builder& b, ValueId y) -> std::vector<ValueId> { return {halves(b, b.transpose(y, {0, 2, 1}))}; }), false);
  for (const bool steps : {false, true}) {
    const Rewrite r(
        kPass,
        [&](Builder& b) -> std::vector<ValueId> {
          const ValueId x = f32_input(b, "x", {4, 8, 8});
          return {halves(b, normalised(b, x, b.scalar(DType::F32, 0.02), f32_param(b, "gamma", {8})))};
        },
        [&](PassRun& run) { (steps ? run.target.region_max_steps : run.target.region_max_inputs) = 3; });
    CHECK(r.first_decline() == (steps ? "step_limit" : "operand_limit"));
  }
}
