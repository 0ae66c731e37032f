#include "eval/equivalence.h"

#include <cmath>

#include "eval/value.h"
#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {
// out = act(x * w + 1), as one or several nodes.
void build(Module& m, bool fused, OpKind act) {
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {m.dims.symbol("n"), Dim(4)}));
  const ValueId w = b.param("w", tensor_type(DType::F32, {Dim(4), Dim(3)}));
  const ValueId one = b.scalar(DType::F32, 1);
  ValueId y;
  if (fused) y = b.create(OpKind::FusedMatMulBiasAct, {x, w, one}, FusedMatMulAttrs{false, false, {true, act, 0, 0}});
  else y = b.unary(act, b.add(b.matmul(x, w), one));
  m.main().add_output(y, m.symbol("y"));
}
}  // namespace

TEST_CASE("same_results: equal graphs agree, others do not") {
  Module plain, fused, other;
  build(plain, false, OpKind::Gelu), build(fused, true, OpKind::Gelu), build(other, true, OpKind::GeluApprox);
  std::string why;
  CHECK_MESSAGE(eval::same_results(plain, fused, 7, 1e-5, 1e-6, &why), why);
  CHECK(!eval::same_results(plain, other, 7, 1e-7, 1e-7, &why));
  CHECK(why.find("output 0 \"y\"") != std::string::npos);
}

TEST_CASE("random values depend on seed and name only") {
  Module m;
  const Type t = tensor_type(DType::F32, {m.dims.symbol("n"), Dim(3)});
  const auto a = eval::random_value(m, t, {{"n", 4}}, eval::seed_of(1, "x")),
             b = eval::random_value(m, t, {{"n", 4}}, eval::seed_of(1, "x"));
  CHECK(a.tensor.dims == std::vector<int64_t>{4, 3});
  CHECK(numbers(a) == numbers(b));
  CHECK(numbers(a) != numbers(eval::random_value(m, t, {{"n", 4}}, eval::seed_of(1, "y"))));
  for (double v : numbers(eval::random_value(m, tensor_type(DType::I64, {Dim(50)}), {}, 3))) CHECK((v >= 0 && v <= 3));
}

TEST_CASE("random inputs that memory has no room for are refused") {
  const auto fit = [](std::vector<Dim> sizes) {
    Module m;
    Builder(m.main()).input("x", tensor_type(DType::I8, std::move(sizes)));
    Diagnostics d;
    const bool ok = eval::random_inputs_fit(m, {}, d);
    if (!ok) CHECK(d.text().find("input \"x\"") != std::string::npos);
    return ok;
  };
  CHECK(fit({Dim(1 << 20), Dim(4)}));
  CHECK(fit({Dim(int64_t{1} << 40), Dim(int64_t{1} << 40), Dim(0)}));
  CHECK_FALSE(fit({Dim(1 << 20), Dim(1 << 20)}));
  CHECK_FALSE(fit({Dim(int64_t{1} << 40), Dim(int64_t{1} << 40)}));
}

TEST_CASE("random inputs of sizes that the model excludes are refused") {
  Module m;
  REQUIRE(m.dims.assume_equal(*m.dims.parse("12*n"), Dim(12)));
  const auto said = [&](DimBindings sizes) {
    eval::Options options;
    options.bindings = std::move(sizes);
    Diagnostics d;
    return eval::random_inputs_fit(m, options, d) ? "" : d.text();
  };
  CHECK(said({}) == "");
  CHECK(said({{"n", 1}}) == "");
  CHECK(said({{"n", 2}}).find("the model needs 12*n = 12, the inputs give 24 and 12") != std::string::npos);
}

TEST_CASE("compare: tolerances, NaN, infinities, exact integers, shapes") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  CHECK(eval::compare(f32({4}, {1, nan, inf, -inf}), f32({4}, {1.00001, nan, inf, -inf}), 1e-4, 0).pass);
  const auto r = eval::compare(f32({3}, {1, 2, 4}), f32({3}, {1, 2, 3}), 1e-4, 1e-5);
  CHECK(!r.pass);
  CHECK(r.first_mismatch == 2);
  CHECK(r.max_abs == 1);
  CHECK(r.cosine == doctest::Approx(17 / std::sqrt(21.0 * 14)));
  CHECK(!eval::compare(f32({1}, {inf}), f32({1}, {-inf}), 1, 1).pass);
  CHECK(!eval::compare(f32({1}, {nan}), f32({1}, {0}), 1, 1).pass);
  CHECK(!eval::compare(i64({1}, {9007199254740993.0}), i64({1}, {9007199254740992.0 - 2}), 1, 1).pass);
  CHECK(eval::compare(f32({1}, {1}), f32({1, 1}, {1}), 1, 1).message == "shape f32[1], expected f32[1,1]");
  CHECK(eval::compare(f32({1}, {1}), i64({1}, {1}), 1, 1).message == "element type f32, expected i64");
  CHECK(eval::compare(eval::sequence_of({f32({1}, {1})}), eval::sequence_of({f32({1}, {1})}), 0, 0).pass);
}
