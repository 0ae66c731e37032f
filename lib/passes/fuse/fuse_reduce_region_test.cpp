#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_reduce_region";

const NormRegionAttrs& attrs(const Rewrite& r) { return r.after->main().attrs<NormRegionAttrs>(r.find(OpKind::NormRegion)); }

}  // namespace

TEST_CASE("fuse_reduce_region: what is reduced and what becomes of it, along any axes") {
  for (const bool keep : {false, true})
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2}, {1}, {0}, {0, 2}, {1, 2}, {0, 1, 2}})
      for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Max, ReduceOp::L2}) {
        const Rewrite r(kPass, [&](Builder& b) {
          const ValueId x = b.mul(f32_input(b, "x", {3, 4, 5}), f32_input(b, "mask", {3, 4, 1}));
          const ValueId y = b.reduce(op, x, axes, keep);
          const std::vector<Dim> own(b.graph().dims(y).begin(), b.graph().dims(y).end());
          return std::vector{b.div(y, f32_param(b, "count",
                                                std::vector<int64_t>(own.empty() || own.back() == Dim(1) ? 0 : 1,
                                                                     own.empty() ? 1 : own.back().size())))};
        });
        CHECK(r.left().find("norm_region") != std::string::npos);
        CHECK(r.left().find("reduce") == std::string::npos);
        CHECK(attrs(r).steps.size() == 3);
        CHECK(attrs(r).axes == axes);
        CHECK(r.run.decisions.at(0).launches_saved == 2);
      }
}

TEST_CASE("fuse_reduce_region: one side alone, integers and symbolic sizes") {
  const Rewrite before(kPass, [](Builder& b) {
    return std::vector{b.reduce(ReduceOp::Max, b.unary(OpKind::Abs, f32_input(b, "x", {b.dims().symbol("s"), 8})), {1}, true)};
  });
  CHECK(before.left() == "norm_region");
  const Rewrite after(kPass, [](Builder& b) {
    const ValueId x = b.input("x", tensor_type(DType::I32, {4, 6}));
    return std::vector{b.unary(OpKind::Neg, b.reduce(ReduceOp::Sum, x, {0}, false))};
  });
  CHECK(after.left() == "norm_region reshape");
}

TEST_CASE("fuse_reduce_region: the steps on both sides may read one value of the kept size") {
  const auto scaled = [](bool keep) {
    return Rewrite(kPass, [keep](Builder& b) {
      const ValueId s = f32_input(b, "s", {1, 5}), x = b.mul(f32_input(b, "x", {4, 5}), s);
      return std::vector{b.div(b.reduce(ReduceOp::Sum, x, {0}, keep), s)};
    });
  };
  CHECK(scaled(true).left() == "norm_region");
  CHECK(scaled(false).left() == "norm_region reshape div");  // of sizes [5] and [1,5]: the quotient is larger than the sum
  const Rewrite row(kPass, [](Builder& b) {
    const ValueId s = f32_input(b, "s", {5}), x = b.mul(f32_input(b, "x", {5, 5}), s);
    return std::vector{b.div(b.reduce(ReduceOp::Sum, x, {1}, false), s)};
  });
  CHECK(row.first_decline() == "layout");
}

TEST_CASE("fuse_reduce_region: values that others read, larger readers and limits stay") {
  const Rewrite shared(kPass, [](Builder& b) {
    const ValueId x = b.unary(OpKind::Exp, f32_input(b, "x", {4, 6}));
    return std::vector{b.div(x, b.reduce(ReduceOp::Sum, x, {1}, true))};
  });
  CHECK_FALSE(shared.result.changed);
  CHECK(shared.first_decline() == "multi_consumer");
  const Rewrite steps(
      kPass,
      [](Builder& b) {
        return std::vector{b.reduce(ReduceOp::Sum, b.unary(OpKind::Exp, f32_input(b, "x", {4, 6})), {1}, true)};
      },
      [](PassRun& run) { run.target.region_max_steps = 1; });
  CHECK(steps.first_decline() == "step_limit");
  const Rewrite few(kPass, [](Builder& b) {
    return std::vector{b.reduce(ReduceOp::Sum, b.unary(OpKind::Exp, f32_input(b, "x", {4000, 600})), {0, 1}, true)};
  });
  CHECK(few.first_decline() == "cost");
}
