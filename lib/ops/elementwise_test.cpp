#include "ops/elementwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernel/builder.h"
#include "kernel/interpret.h"
#include "kernel/verify.h"

using namespace rlxc;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<double> kValues = {-kInfinity, -1e300, -3.5, -1, -0.75, -0.0, 0, 1e-300, 0.25, 1, 2, 40, 1e300, kInfinity, NAN};
constexpr ops::Params kParams = {0.75, 0.5, 64};

// Compares the definition on doubles with the value its kernel stores; bools are 0 and 1.
template <class M>
void compare(M meaning) {
  std::vector<std::vector<double>> operands;
  for (double a : kValues)
    for (double b : M::arity > 1 ? kValues : std::vector<double>{0})
      for (double c : M::arity > 2 ? kValues : std::vector<double>{0}) operands.push_back({a, b, c});
  const auto n = static_cast<int64_t>(operands.size());
  std::vector<double> columns[3], expected, actual(operands.size());
  for (const auto& o : operands) {
    for (size_t i = 0; i < 3; ++i) columns[i].push_back(o[i]);
    if constexpr (M::arity == 1) expected.push_back(static_cast<double>(meaning(kParams, o[0])));
    else if constexpr (M::arity == 2) expected.push_back(static_cast<double>(meaning(kParams, o[0], o[1])));
    else expected.push_back(static_cast<double>(meaning(kParams, o[0], o[1], o[2])));
  }
  kernel::Builder b("k");
  kernel::Buf in[3];
  for (int i = 0; i < M::arity; ++i) in[i] = b.input("x", DType::F64, n);
  const kernel::Buf y = b.output("y", DType::F64, n);
  b.loop("i", n, [&](kernel::Expr i) {
    kernel::Expr v;
    if constexpr (M::arity == 1) v = meaning(kParams, in[0][i]);
    else if constexpr (M::arity == 2) v = meaning(kParams, in[0][i], in[1][i]);
    else v = meaning(kParams, in[0][i], in[1][i], in[2][i]);
    y.store(i, cast_to(v, DType::F64));
  });
  const kernel::Kernel k = b.finish();
  for (const std::string& problem : kernel::verify(k)) FAIL_CHECK(problem);
  std::vector<void*> arguments;
  for (int i = 0; i < M::arity; ++i) arguments.push_back(columns[i].data());
  arguments.push_back(actual.data());
  REQUIRE(kernel::interpret(k, arguments, {}).ok());
  for (size_t i = 0; i < operands.size(); ++i) {
    INFO(std::string(kind_name(M::op)), "(", operands[i][0], ", ", operands[i][1], ", ", operands[i][2], "): ", actual[i],
         ", not ", expected[i]);
    CHECK((actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))));
  }
}

}  // namespace

TEST_CASE("every meaning on floats is the same at numbers and in kernels") {
  int compared = 0;
  for (int i = 0; i < kOpCount; ++i)
    ops::visit(static_cast<OpKind>(i), [&](auto meaning) {
      if constexpr ((decltype(meaning)::domain & ops::kFloats) != 0) {
        compare(meaning);
        ++compared;
      }
    });
  CHECK(compared > 50);
}

TEST_CASE("meanings neither overflow nor cancel where the result is representable") {
  const auto at = [](OpKind op, double x) {
    double y = 0;
    ops::visit(op, [&](auto meaning) {
      if constexpr (decltype(meaning)::arity == 1 && (decltype(meaning)::domain & ops::kFloats) != 0)
        y = static_cast<double>(meaning(ops::Params{1, 1}, x));
    });
    return y;
  };
  CHECK(at(OpKind::Softplus, 800) == 800);
  CHECK(at(OpKind::Softplus, -800) >= 0);
  CHECK(at(OpKind::Softplus, -40) == doctest::Approx(std::exp(-40.0)).epsilon(1e-12));
  CHECK(at(OpKind::LogSigmoid, -800) == -800);
  CHECK(at(OpKind::Elu, -1e-10) == doctest::Approx(-1e-10).epsilon(1e-9));
  CHECK(at(OpKind::Mish, 800) == 800);
  CHECK(at(OpKind::Sigmoid, -800) == 0);
}

TEST_CASE("integers wrap, and nothing is undefined") {
  using ops::Int;
  const Int least = std::numeric_limits<int64_t>::min();
  CHECK(least - 1 == Int(std::numeric_limits<int64_t>::max()));
  CHECK(-least == least);
  CHECK(least / -1 == least);
  CHECK(least % -1 == Int(0));
  CHECK(Int(5) / 0 == Int(0));
  CHECK(Int(5) % 0 == Int(0));
  CHECK(Int(-7) / 2 == Int(-3));
  CHECK(Int(-7) % 2 == Int(-1));
  CHECK(pow(Int(2), Int(-1)) == Int(0));
  CHECK(pow(Int(-1), Int(-3)) == Int(-1));
  CHECK(ops::lit(Int(0), NAN) == Int(0));
  CHECK(ops::lit(Int(0), 1e300) == Int(std::numeric_limits<int64_t>::max()));
}
