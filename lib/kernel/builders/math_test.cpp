#include "kernel/math.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernel/builders/map.h"
#include "support/kernel_check.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

struct Function {
  const char* name;
  Expr (*of)(Expr);
  double (*reference)(double);
  double low, high;
  bool everywhere = true;  // also infinities and NaN
};

const Function kFunctions[] = {
    {"exp", [](Expr x) { return exp(x); }, std::exp, -110, 90},
    {"exp2", [](Expr x) { return exp2(x); }, std::exp2, -130, 130},
    {"expm1", [](Expr x) { return expm1(x); }, std::expm1, -20, 20},
    {"log", [](Expr x) { return log(x); }, std::log, 0, 100},
    {"log1p", [](Expr x) { return log1p(x); }, std::log1p, -1, 5},
    {"tanh", [](Expr x) { return tanh(x); }, std::tanh, -10, 10},
    {"erf", [](Expr x) { return erf(x); }, std::erf, -5, 5},
    {"sqrt", [](Expr x) { return sqrt(x); }, std::sqrt, 0, 5},
    {"rsqrt", [](Expr x) { return rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, 0.1, 5},
    {"sin", [](Expr x) { return sin(x); }, std::sin, -10, 10},
    {"cos", [](Expr x) { return cos(x); }, std::cos, -10, 10},
    {"tan", [](Expr x) { return tan(x); }, std::tan, -1, 1},
    {"asin", [](Expr x) { return asin(x); }, std::asin, -1, 1},
    {"acos", [](Expr x) { return acos(x); }, std::acos, -1, 1},
    {"atan", [](Expr x) { return atan(x); }, std::atan, -10, 10},
    {"sinh", [](Expr x) { return sinh(x); }, std::sinh, -10, 10},
    {"cosh", [](Expr x) { return cosh(x); }, std::cosh, -10, 10},
    {"asinh", [](Expr x) { return asinh(x); }, std::asinh, -10, 10},
    {"acosh", [](Expr x) { return acosh(x); }, std::acosh, 1, 10},
    {"atanh", [](Expr x) { return atanh(x); }, std::atanh, -0.9, 0.9},
    {"floor", [](Expr x) { return floor(x); }, std::floor, -10, 10},
    {"ceil", [](Expr x) { return ceil(x); }, std::ceil, -10, 10},
    {"trunc", [](Expr x) { return trunc(x); }, std::trunc, -10, 10},
    {"round_even", [](Expr x) { return round_even(x * 2) / 2; }, [](double x) { return std::nearbyint(x * 2) / 2; }, -10, 10,
     false},
    {"pow", [](Expr x) { return pow(abs(x), lit(x, 1.7)); }, [](double x) { return std::pow(std::fabs(x), 1.7); }, -10, 10},
    {"fmod", [](Expr x) { return fmod(x, lit(x, 0.75)); }, [](double x) { return std::fmod(x, 0.75); }, -10, 10, false},
    {"relu", [](Expr x) { return max(x, 0); }, [](double x) { return x > 0 || std::isnan(x) ? x : 0; }, -10, 10},
    {"min", [](Expr x) { return min(lit(x, 1), x); }, [](double x) { return x < 1 || std::isnan(x) ? x : 1; }, -10, 10},
    {"isnan", [](Expr x) { return select(isnan(x), lit(x, 1), lit(x, 0)); }, [](double x) { return std::isnan(x) ? 1.0 : 0.0; },
     -1, 1},
    {"isinf", [](Expr x) { return select(isinf(x), lit(x, 1), lit(x, 0)); }, [](double x) { return std::isinf(x) ? 1.0 : 0.0; },
     -1, 1},
    {"to i32", [](Expr x) { return cast_to(cast_to(x, DType::I32), x.dtype()); },
     [](double x) { return std::isnan(x) ? 0 : std::trunc(x); }, -9e6, 9e6, false},
    {"select", [](Expr x) { return select(x < 0 || x > 2, -x, x * x); }, [](double x) { return x < 0 || x > 2 ? -x : x * x; },
     -10, 10},
};

KernelCase map_of(const Function& f, DType t, std::vector<double> x) {
  KernelCase c;
  c.name = std::string(f.name) + " " + std::string(rlxc::name(t));
  if (t == DType::F32)
    for (double& v : x) v = static_cast<float>(v);
  CheckBuffer y{t, {}, true};
  for (double v : x) y.values.push_back(t == DType::F32 ? static_cast<float>(f.reference(v)) : f.reference(v));
  c.buffers = {{t, x}, y};
  c.rtol = 2e-5, c.atol = 1e-6;
  auto of = f.of;
  int64_t n = static_cast<int64_t>(x.size());
  c.build = [=](kernel::Builder& b, const Mapping& m) {
    MapSpec s;
    s.shape = {n};
    s.inputs = {dense(b.kernel(), "x", t, s.shape)}, s.outputs = {dense(b.kernel(), "y", t, s.shape)};
    s.body = [=](const std::vector<Expr>& v) { return std::vector<Expr>{of(v[0])}; };
    build_map(b, s, m);
  };
  return c;
}

KernelCase unary(const Function& f, DType t) {
  std::vector<double> x = random_values(333, t, f.low, f.high, 7);
  const size_t random = x.size();
  if (f.everywhere)
    for (double v : {0.0, -0.0, 1.0, -1.0, 1e-30, 1e-40, 3e38, double(INFINITY), -double(INFINITY), double(NAN)}) x.push_back(v);
  KernelCase c = map_of(f, t, x);
  c.special = x.size() - random;
  return c;
}

// Where formulas lose digits, overflow or change.
const std::pair<Function, std::vector<double>> kEnds[] = {
    {{"exp", [](Expr x) { return exp(x); }, std::exp, 0, 0}, {-87.0, -86.9, 88.72, 0.5}},
    {{"expm1", [](Expr x) { return expm1(x); }, std::expm1, 0, 0}, {1e-30, -1e-10, 0.5, -0.5, -20, 88.72}},
    {{"log1p", [](Expr x) { return log1p(x); }, std::log1p, 0, 0}, {1e-30, -3e-8, 1e-7, 31.8635883, -0.99999994, 3e38}},
    {{"sin", [](Expr x) { return sin(x); }, std::sin, 0, 0}, {3.1415927, 505.796417, 8191, 8193, -1e13, 3e38}},
    {{"cos", [](Expr x) { return cos(x); }, std::cos, 0, 0}, {1.5707964, 252.898209, 8191, 8193, -1e13, 3e38}},
    {{"sinh", [](Expr x) { return sinh(x); }, std::sinh, 0, 0}, {1e-30, 1e-5, 0.999, 1, -20, 89.2}},
    {{"cosh", [](Expr x) { return cosh(x); }, std::cosh, 0, 0}, {1e-30, -1, 20, 89.2}},
    {{"asinh", [](Expr x) { return asinh(x); }, std::asinh, 0, 0}, {1e-30, -1e-5, -4095.9995, 1e10, -3e38}},
    {{"acosh", [](Expr x) { return acosh(x); }, std::acosh, 0, 0}, {1.0000001, 1.01, 4096, 1e10, 3e38}},
    {{"atanh", [](Expr x) { return atanh(x); }, std::atanh, 0, 0}, {1e-30, -3e-8, 0.5, 0.99999994}},
    {{"erf", [](Expr x) { return erf(x); }, std::erf, 0, 0}, {2e-38, 1e-8, -3.9, 4, 1e30}},
    {{"tanh", [](Expr x) { return tanh(x); }, std::tanh, 0, 0}, {2e-38, 1e-8, -8.9, 18.5, 1e30}},
    {{"softplus", [](Expr x) { return max(x, 0) + log1p(exp(-abs(x))); },
      [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }, 0, 0},
     {-15.5592394, -30, -86, 50}},
};

}  // namespace

TEST_CASE("math functions on scalars and vectors") {
  std::vector<KernelCase> cases;
  for (const Function& f : kFunctions)
    for (DType t : {DType::F32, DType::F64}) cases.push_back(unary(f, t));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("math functions at the ends of their range") {
  std::vector<KernelCase> cases;
  for (const auto& [f, x] : kEnds) {
    cases.push_back(map_of(f, DType::F32, x));
    cases.back().rtol = 6e-7, cases.back().atol = 0;
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}
