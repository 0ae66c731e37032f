#include "ir/region.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_reduce_region";

const FusionAttrs& attrs(const Rewrite& r) { return r.after->main().attrs<FusionAttrs>(r.find(OpKind::ReduceRegion)); }
ValueId kept(Builder& b, ReduceOp op, ValueId x) { return b.reduce(op, x, {b.graph().rank(x) - 1}, true); }

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
        CHECK(r.find(OpKind::ReduceRegion).valid());
        CHECK_FALSE(r.find(OpKind::Reduce).valid());
        CHECK(attrs(r).steps.size() == 3);
        CHECK(reduced_axes(attrs(r).steps) == axes);
        CHECK(r.run.decisions.at(0).launches_saved == 2);
      }
}

TEST_CASE("fuse_reduce_region: one side alone, integers and symbolic sizes") {
  const Rewrite before(kPass, [](Builder& b) {
    return std::vector{b.reduce(ReduceOp::Max, b.unary(OpKind::Abs, f32_input(b, "x", {b.dims().symbol("s"), 8})), {1}, true)};
  });
  CHECK(before.left() == "reduce_region");
  const Rewrite after(kPass, [](Builder& b) {
    const ValueId x = b.input("x", tensor_type(DType::I32, {4, 6}));
    return std::vector{b.unary(OpKind::Neg, b.reduce(ReduceOp::Sum, x, {0}, false))};
  });
  CHECK(after.left() == "reduce_region reshape");
}

TEST_CASE("fuse_reduce_region: the steps on both sides may read one value of the kept size") {
  const auto scaled = [](bool keep) {
    return Rewrite(kPass, [keep](Builder& b) {
      const ValueId s = f32_input(b, "s", {1, 5}), x = b.mul(f32_input(b, "x", {4, 5}), s);
      return std::vector{b.div(b.reduce(ReduceOp::Sum, x, {0}, keep), s)};
    });
  };
  CHECK(scaled(true).left() == "reduce_region");
  CHECK(scaled(false).left() == "reduce_region reshape div");  // shapes [5] and [1,5]: the quotient is larger than the sum
  const Rewrite row(kPass, [](Builder& b) {
    const ValueId s = f32_input(b, "s", {5}), x = b.mul(f32_input(b, "x", {5, 5}), s);
    return std::vector{b.div(b.reduce(ReduceOp::Sum, x, {1}, false), s)};
  });
  CHECK(row.first_decline() == "layout");
}

TEST_CASE("fuse_reduce_region: rows by their own sum, largest value or length") {
  const Rewrite share(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {4, 6});
    return std::vector{b.div(x, kept(b, ReduceOp::Sum, x))};
  });
  CHECK(share.left() == "reduce_region");
  const Rewrite unit(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, b.dims().symbol("s"), 7});
    const ValueId length = b.create(OpKind::Clamp, {kept(b, ReduceOp::L2, x)}, ClampAttrs{1e-12, 1e30});
    return std::vector{b.div(x, length), b.unary(OpKind::Neg, x)};  // the rows may have other users
  });
  CHECK(unit.left() == "reduce_region neg");
  CHECK(attrs(unit).steps.size() == 3);
  const Rewrite squares(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {2, 3, 7});
    const ValueId sum = b.reduce(ReduceOp::Sum, b.mul(x, x), {2}, false);
    return std::vector{b.div(x, b.reshape(b.unary(OpKind::Sqrt, sum), {2, 3, 1}))};
  });
  CHECK(squares.left() == "reduce_region");
  CHECK(squares.run.decisions.at(0).launches_saved == 3);  // without the view
}

TEST_CASE("fuse_reduce_region: several reductions of the same rows, one by another or beside it") {
  const Rewrite softmax(kPass, [](Builder& b) {
    const ValueId x = b.add(f32_input(b, "x", {2, 3, 9}), f32_input(b, "mask", {3, 9}));
    const ValueId e = b.unary(OpKind::Exp, b.sub(x, kept(b, ReduceOp::Max, x)));
    return std::vector{b.div(e, kept(b, ReduceOp::Sum, e))};
  });
  CHECK(softmax.left() == "reduce_region");
  CHECK(attrs(softmax).steps.size() == 6);
  const Rewrite spread(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {5, 2, 3}), most = b.reduce(ReduceOp::Max, x, {1, 2}, true);
    const ValueId range = b.sub(most, b.reduce(ReduceOp::Min, x, {1, 2}, true));
    return std::vector{b.div(b.sub(x, b.reduce(ReduceOp::Mean, x, {1, 2}, true)), range)};
  });
  CHECK(spread.left() == "reduce_region");
  const Rewrite number(kPass, [](Builder& b) {  // log-sum-exp is declined
    const ValueId x = f32_input(b, "x", {5, 9}), most = kept(b, ReduceOp::Max, x);
    return std::vector{b.add(most, b.unary(OpKind::Log, kept(b, ReduceOp::Sum, b.unary(OpKind::Exp, b.sub(x, most)))))};
  });
  CHECK(number.left() == "reduce_region");
}

TEST_CASE("fuse_reduce_region: what is expensive is stored for two walks over a row, unless its rows are few") {
  const auto share = [](int64_t rows) {
    return Rewrite(kPass, [rows](Builder& b) {
      const ValueId e = b.unary(OpKind::Exp, f32_input(b, "x", {rows, 200}));
      return std::vector{b.div(e, kept(b, ReduceOp::Sum, e))};
    });
  };
  CHECK(share(8).left() == "reduce_region");
  const Rewrite many = share(2000);
  CHECK(many.left() == "exp reduce_region");
  CHECK(many.first_decline() == "multi_consumer");
}

TEST_CASE("fuse_reduce_region: rows along other axes stay apart from what becomes of them") {
  const Rewrite columns(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {4, 6});
    return std::vector{b.div(x, b.unary(OpKind::Sqrt, b.reduce(ReduceOp::Sum, x, {0}, true)))};
  });
  CHECK(columns.left() == "reduce_region div");
  CHECK(columns.first_decline() == "axes");
  // A vector with the length of the sums that is not aligned with the rows.
  const Rewrite other(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {4, 4});
    return std::vector{b.div(x, b.reduce(ReduceOp::Sum, x, {1}, false))};
  });
  CHECK_FALSE(other.result.changed);
  // Values with one number per row are fused.
  const Rewrite factor(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {4, 4}), w = b.reshape(b.unary(OpKind::Neg, f32_input(b, "w", {4})), {4, 1});
    return std::vector{b.mul(b.div(x, kept(b, ReduceOp::Sum, x)), w)};
  });
  CHECK(factor.left() == "reshape reduce_region");
}

TEST_CASE("fuse_reduce_region: values that others read, larger readers and limits stay") {
  const Rewrite shared(kPass, [](Builder& b) {
    const ValueId x = b.unary(OpKind::Exp, f32_input(b, "x", {4, 6}));
    return std::vector{x, kept(b, ReduceOp::Sum, x)};
  });
  CHECK_FALSE(shared.result.changed);
  CHECK(shared.first_decline() == "multi_consumer");
  const Rewrite two(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {4, 6}), sum = kept(b, ReduceOp::Sum, x);
    return std::vector{b.div(x, sum), b.sub(x, sum)};
  });
  CHECK_FALSE(two.result.changed);
  const auto sum_of_exp = [](Builder& b) {
    return std::vector{kept(b, ReduceOp::Sum, b.unary(OpKind::Exp, f32_input(b, "x", {4, 6})))};
  };
  CHECK(Rewrite(kPass, sum_of_exp, [](PassRun& run) { run.target.region_max_steps = 1; }).first_decline() == "step_limit");
  const Rewrite few(kPass, [](Builder& b) {
    return std::vector{b.reduce(ReduceOp::Sum, b.unary(OpKind::Exp, f32_input(b, "x", {4000, 600})), {0, 1}, true)};
  });
  CHECK(few.first_decline() == "cost");
}

TEST_CASE("fuse_reduce_region: the region names its nodes, a reshape behind it does not") {
  const Rewrite r(kPass, [](Builder& b) {
    b.set_node_name(b.module().symbol("product"));
    const ValueId x = b.mul(f32_input(b, "x", {4, 6}), f32_input(b, "y", {4, 6}));
    b.set_node_name(b.module().symbol("sum"));
    return std::vector{b.reduce(ReduceOp::Sum, x, {1}, false)};
  });
  CHECK(r.left() == "reduce_region reshape");
  const Graph& g = r.after->main();
  CHECK(r.after->origin(g.origin(r.find(OpKind::ReduceRegion))).sources.size() == 2);
}
