#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_rounded_rows";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

struct Case {
  DType to = DType::U8;
  double zero = 3;        // of the rounding; 0: none
  double subtracted = 3;  // by the matmul
  std::vector<Dim> rows = {2, 3};
  int64_t columns = 6;
  bool steps = true, weight = true, read_twice = false;
  bool moved = false;  // the codes are transposed and flattened

  std::vector<ValueId> operator()(Builder& b) const {
    std::vector<Dim> dims = rows;
    dims.push_back(Dim(8));
    const ValueId x = f32_input(b, "x", dims), scale = num(b, 0.05), z = b.scalar(to, subtracted);
    const double low = to == DType::U8 ? 0 : -128;
    FusionAttrs a;
    std::vector<ValueId> operands{x, scale};
    a.steps = {{OpKind::Div, DType::F32, {0, 1, kNone}}, {OpKind::Round, DType::F32, {kStep, kNone, kNone}}};
    if (zero != 0) {
      operands.push_back(zero == subtracted ? b.cast(z, DType::F32) : num(b, zero));
      a.steps.push_back({OpKind::Add, DType::F32, {kStep | 1, 2, kNone}});
    }
    const auto last = [&] { return static_cast<uint16_t>(kStep | (a.steps.size() - 1)); };
    a.steps.push_back({OpKind::Clamp, DType::F32, {last(), kNone, kNone}, ClampAttrs{low, low + 255}});
    a.steps.push_back({OpKind::Cast, to, {last(), kNone, kNone}});
    ValueId codes = b.create(OpKind::ElementwiseRegion, operands, a);
    if (moved) codes = b.reshape(b.transpose(codes, {1, 0, 2}), {Dim(6), Dim(8)});
    const Type type = tensor_type(DType::I8, {8, Dim(columns)});
    const ValueId w = weight ? b.param("w", type) : b.input("w", type), zero_point = subtracted == 0 ? ValueId() : z;
    std::vector<ValueId> results;
    if (steps) {
      const FusionAttrs after{{{OpKind::QMatMul, DType::I32, {kNone, kNone, kNone}},
                               {OpKind::Cast, DType::F32, {kStep, kNone, kNone}},
                               {OpKind::Mul, DType::F32, {kStep | 1, 4, kNone}}}};
      results = {b.create(OpKind::FusedQMatMul, {codes, w, zero_point, ValueId(), f32_input(b, "s", {Dim(columns)})}, after)};
    } else {
      results = {b.create(OpKind::QMatMul, {codes, w, zero_point})};
    }
    if (read_twice) results.push_back(codes);
    return results;
  }
};

}  // namespace

TEST_CASE("fuse_rounded_rows: a matmul with and without steps, with and without a zero point") {
  for (DType t : {DType::U8, DType::I8})
    for (bool steps : {false, true})
      for (double zero : {0.0, 3.0}) {
        const Rewrite r(kPass, Case{.to = t, .zero = zero, .subtracted = zero, .steps = steps});
        CHECK((r.left() == "fused_q_matmul" || r.left() == "cast fused_q_matmul"));
        const Graph& g = r.after->main();
        const NodeId n = r.find(OpKind::FusedQMatMul);
        REQUIRE(n.valid());
        CHECK(g.dtype(g.operand(n, 0)) == DType::F32);
        CHECK(g.attrs<FusionAttrs>(n).steps.size() == (steps ? 3 : 1));
        CHECK(r.run.decisions.at(0).fused);
      }
}

TEST_CASE("fuse_rounded_rows: rows that are transposed and flattened") {
  CHECK(Rewrite(kPass, Case{.moved = true}).left() == "transpose reshape fused_q_matmul");
  CHECK_FALSE(Rewrite(kPass, Case{.read_twice = true, .moved = true}).result.changed);
}

TEST_CASE("fuse_rounded_rows: another zero point, rows with other readers, and products of activations stay") {
  CHECK(Rewrite(kPass, Case{.zero = 4}).left() == "elementwise_region fused_q_matmul");
  CHECK(Rewrite(kPass, Case{.zero = 0}).left() == "elementwise_region fused_q_matmul");
  CHECK_FALSE(Rewrite(kPass, Case{.weight = false}).result.changed);
  const Rewrite twice(kPass, Case{.read_twice = true});
  CHECK_FALSE(twice.result.changed);
  CHECK(twice.first_decline() == "multi_consumer");
}

TEST_CASE("fuse_rounded_rows: few rows and many columns stay, many rows do not") {
  const auto decline = [](int64_t rows, int64_t columns) {
    return Rewrite(kPass, Case{.rows = {Dim(rows)}, .columns = columns}).first_decline();
  };
  CHECK(decline(4, 1 << 14) == "cost");
  CHECK(decline(1 << 10, 256).empty());
}

TEST_CASE("fuse_rounded_rows: on a grid, those of small matmuls") {
  const auto decline = [](int64_t rows, int64_t columns) {
    return Rewrite(kPass, Case{.rows = {Dim(rows)}, .columns = columns}, [](PassRun& run) { run.target.threads = false; })
        .first_decline();
  };
  CHECK(decline(4, 64).empty());
  CHECK(decline(1 << 13, 1 << 13) == "cost");
}

TEST_CASE("fuse_rounded_rows: not beyond the operands of the target") {
  const Rewrite r(kPass, Case{}, [](PassRun& run) { run.target.region_max_inputs = 5; });
  CHECK(r.first_decline() == "operand_limit");
}
