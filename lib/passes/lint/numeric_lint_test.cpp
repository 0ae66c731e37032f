#include <cmath>
#include <limits>

#include "passes/passes.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

// The number of warnings, and their text.
std::pair<int64_t, std::string> lint(const std::function<ValueId(Builder&)>& build) {
  PassFixture f;
  f.g.add_output(build(f.b), {});
  const PassResult r = f.run(f.m, "numeric_lint");
  CHECK_FALSE(r.changed);
  CHECK(f.run.diagnostics.ok());  // warnings only
  return {count(r, "findings"), f.run.diagnostics.text()};
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

ValueId constant(Builder& b, std::vector<float> values) {
  const std::vector<int64_t> dims{static_cast<int64_t>(values.size())};
  return b.constant(make_data(DType::F32, dims, values));
}

}  // namespace

TEST_CASE("constants that are not finite are found, with their type") {
  CHECK(lint([](Builder& b) { return b.add(f32_input(b, "x", {2}), constant(b, {1, kNan})); }).first == 1);
  CHECK(lint([](Builder& b) { return b.mul(f32_input(b, "x", {2}), constant(b, {1, kInfinity})); }).first == 1);
  // Bits of integers and low-precision floats that are NaN if read as f32.
  CHECK(lint([](Builder& b) {
          return b.cast(b.constant(make_data(DType::I64, {1}, std::vector<int64_t>{-1})), DType::F32);
        }).first == 0);
  CHECK(lint([](Builder& b) {
          return b.constant(make_data(DType::F16, {2}, std::vector<uint16_t>{0x7bff, 0x7fc0 & 0x7bff}));
        }).first == 0);
}

TEST_CASE("masks of minus infinity in front of a softmax are meant") {
  const auto masked = [](bool softmax) {
    return lint([softmax](Builder& b) {
      const ValueId s = b.create(
          OpKind::Where, {b.input("c", tensor_type(DType::Bool, {2})), f32_input(b, "x", {2}), b.scalar(DType::F32, -kInfinity)});
      const ValueId t = b.add(s, num(b, 1));
      return softmax ? b.create(OpKind::Softmax, {t}, AxisAttrs{0}) : b.unary(OpKind::Tanh, t);
    });
  };
  CHECK(masked(true).first == 0);
  CHECK(masked(false).first == 1);
}

TEST_CASE("operations outside their domain for every input are found by intervals") {
  const auto found = [](OpKind op, const std::function<ValueId(Builder&, ValueId)>& inside) {
    return lint([&](Builder& b) { return b.unary(op, inside(b, f32_input(b, "x", {3}))); }).first;
  };
  const auto minus_square = [](Builder& b, ValueId x) { return b.sub(num(b, -1), b.mul(x, x)); };
  CHECK(found(OpKind::Sqrt, minus_square) == 1);
  CHECK(found(OpKind::Log, [](Builder& b, ValueId x) { return b.unary(OpKind::Neg, b.unary(OpKind::Exp, x)); }) == 1);
  CHECK(found(OpKind::Acos, [](Builder& b, ValueId x) { return b.add(b.unary(OpKind::Sigmoid, x), num(b, 1.5)); }) == 1);
  CHECK(found(OpKind::Sqrt, [](Builder&, ValueId x) { return x; }) == 0);
  CHECK(found(OpKind::Sqrt, [](Builder& b, ValueId x) { return b.mul(x, x); }) == 0);
  CHECK(found(OpKind::Log, [](Builder& b, ValueId x) { return b.add(b.unary(OpKind::Relu, x), num(b, 1e-6)); }) == 0);
  CHECK(lint([](Builder& b) { return b.div(f32_input(b, "x", {3}), num(b, 0)); }).first == 1);
}

TEST_CASE("an epsilon that is 0 in the type of its norm is found") {
  const auto norm = [](DType t, double eps) {
    return lint([=](Builder& b) {
             return b.create(OpKind::LayerNorm, {b.input("x", tensor_type(t, {2, 4}))}, NormAttrs{1, eps});
           })
        .first;
  };
  CHECK(norm(DType::F16, 1e-12) == 1);
  CHECK(norm(DType::F16, 1e-5) == 0);
  CHECK(norm(DType::F32, 1e-12) == 0);
}
