#include "support/rewrite.h"
#include "support/same_results.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_integer_gate";
constexpr uint16_t kNone = RegionStep::kNone, kStep = RegionStep::kStep;

struct Gate {
  int64_t columns = 6;
  DType weight = DType::I8;
  std::optional<int> zero = {}, own_zero = {};  // of the columns of both weights
  int zero_of_x = 3;
  bool weight_is_input = false, sums_read = false;
};

// relu(sum with w * scale) * sum with u, of one value.
Rewrite::Build gated(Gate f) {
  return [f](Builder& b) {
    const ValueId x = b.input("x", tensor_type(DType::U8, {2, 3, 8}));
    const auto weight = [&](std::string_view name, DType t, int64_t columns) {
      std::vector<uint8_t> bytes(static_cast<size_t>(8 * columns));
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 57 + name.back());
      return b.param(name, tensor_type(t, {8, Dim(columns)}), b.module().data.add(make_data(t, {8, columns}, bytes)));
    };
    const auto zero = [&](std::optional<int> z, DType t) { return z ? b.scalar(t, *z) : ValueId(); };
    const ValueId u = f.weight_is_input ? b.input("u", tensor_type(f.weight, {8, 6})) : weight("u", f.weight, f.columns);
    const ValueId up = b.create(OpKind::QMatMul, {x, u, b.scalar(DType::U8, f.zero_of_x), zero(f.zero, f.weight)});
    const std::vector<RegionStep> steps = {
        {OpKind::QMatMul, DType::I32, {kNone, kNone, kNone}}, {OpKind::Cast, DType::F32, {kStep, kNone, kNone}},
        {OpKind::Mul, DType::F32, {kStep | 1, 4, kNone}},     {OpKind::Relu, DType::F32, {kStep | 2, kNone, kNone}},
        {OpKind::Cast, DType::F32, {5, kNone, kNone}},        {OpKind::Mul, DType::F32, {kStep | 3, kStep | 4, kNone}},
        {OpKind::Mul, DType::F32, {kStep | 5, 6, kNone}}};
    const ValueId y = b.create(OpKind::FusedQMatMul,
                               {x, weight("w", DType::I8, 6), b.scalar(DType::U8, 3), zero(f.own_zero, DType::I8),
                                f32_param(b, "scale", {6}), up, b.scalar(DType::F32, 0.001)},
                               FusionAttrs{steps});
    std::vector<ValueId> out{y};
    if (f.sums_read) out.push_back(up);
    return out;
  };
}

}  // namespace

TEST_CASE("fuse_integer_gate: two sums of one value, with zero points of the weights") {
  for (const Gate& f : {Gate{}, Gate{.zero = 5}, Gate{.zero = 5, .own_zero = 5}, Gate{.own_zero = -2}}) {
    Rewrite r(kPass, gated(f));
    CHECK(r.left().find("q_matmul fused") == std::string::npos);
    const Graph& g = r.after->main();
    const NodeId n = r.find(OpKind::FusedQMatMul);
    REQUIRE(n.valid());
    CHECK(g.operands(n).size() == 6);
    CHECK(g.dims(g.operand(n, 1))[1] == Dim(12));
    CHECK(g.attrs<FusionAttrs>(n).steps.size() == 8);
    CHECK(r.run.decisions.at(0).fused);
    for (uint64_t seed = 1; seed <= 3; ++seed) same_results(*r.before, *r.after, seed);
  }
}

TEST_CASE("fuse_integer_gate: what stays") {
  const auto decline = [](const Gate& f) {
    const Rewrite r(kPass, gated(f));
    CHECK_FALSE(r.result.changed);
    return r.first_decline();
  };
  CHECK(decline({.weight_is_input = true}) == "runtime_weights");
  CHECK(decline({.weight = DType::U8}) == "quantization_differs");
  CHECK(decline({.zero_of_x = 4}) == "quantization_differs");
  CHECK_FALSE(Rewrite(kPass, gated({.sums_read = true})).result.changed);
}

TEST_CASE("fuse_integer_gate: targets without kernels for two sums keep both") {
  const Rewrite r(kPass, gated({}), [](PassRun& run) { run.target.integer_fusions = false; });
  CHECK_FALSE(r.result.changed);
}
