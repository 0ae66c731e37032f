#include "kernel/builders/reduce.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/builders/map.h"
#include "support/kernel_check.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

struct Reference {
  ExprOp combine;
  double start;
  double (*step)(double, double);
};
const Reference kSum = {ExprOp::Add, 0, [](double a, double b) { return a + b; }};
const Reference kMax = {ExprOp::Max, -std::numeric_limits<double>::infinity(), [](double a, double b) { return std::max(a, b); }};
const Reference kMin = {ExprOp::Min, std::numeric_limits<double>::infinity(), [](double a, double b) { return std::min(a, b); }};
const Reference kProd = {ExprOp::Mul, 1, [](double a, double b) { return a * b; }};

// Reduces squares (or the values), divides by the count (or not). With `symbolic` the first axis is a symbol.
KernelCase reduce(std::vector<int64_t> shape, std::vector<bool> axes, Reference r = kSum, DType t = DType::F32,
                  bool mean_square = false, bool symbolic = false) {
  KernelCase c;
  c.name = std::string(name(r.combine)) + " of " + std::string(rlxc::name(t));
  int64_t in = 1, out = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    c.name += (axes[d] ? " -" : " ") + std::to_string(shape[d]);
    in *= shape[d], out *= axes[d] ? 1 : shape[d];
  }
  if (symbolic) c.symbols = {shape[0]};
  c.build = [=](kernel::Builder& b, const Mapping& m) {
    ReduceSpec s;
    for (int64_t d : shape) s.shape.push_back(d);
    if (symbolic) s.shape[0] = b.symbol("batch", 0, 1000);
    s.reduced = axes, s.combine = r.combine;
    s.inputs = {dense(b.kernel(), "x", t, s.shape)};
    s.output.name = "y", s.output.dtype = t, s.accumulate = compute_dtype(t);
    if (mean_square) {
      s.prologue.body = [](std::span<const Expr>, const LoadInput& load) -> std::vector<Expr> { return {load(0) * load(0)}; };
      s.epilogue.body = [](std::span<const Expr> sum, const LoadInput&) -> std::vector<Expr> {
        return {sum[0] / cast_to(sum[1], sum[0].dtype())};
      };
    }
    build_reduce(b, s, m);
  };
  double limit = r.combine == ExprOp::Mul ? 1.5 : 9;
  CheckBuffer x{t, random_values(in, t, is_float(t) ? -limit : -3, is_float(t) ? limit : 3, in)},
      y{t, std::vector<double>(out, r.start), true};
  if (dtype_class(t) == DTypeClass::Int && r.combine == ExprOp::Mul)
    for (double& v : x.values) v = v < 0 ? -1 : 1;
  for (int64_t i = 0; i < in; ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      if (!axes[d]) at += rest % shape[d] * stride, stride *= shape[d];
    y.values[at] = r.step(y.values[at], mean_square ? x.values[i] * x.values[i] : x.values[i]);
  }
  if (mean_square)
    for (double& v : y.values) v /= static_cast<double>(in / std::max<int64_t>(out, 1));
  c.atol = 1e-5 * std::sqrt(static_cast<double>(in / std::max<int64_t>(out, 1)) + 1) * 9;
  c.buffers = {x, y};
  return c;
}

}  // namespace

TEST_CASE("reductions: rows, columns, all, alternating axes") {
  std::vector<KernelCase> cases;
  for (int64_t n : {1, 2, 3, 16, 17, 63, 64, 65, 129, 1000}) {
    cases.push_back(reduce({5, n}, {false, true}));
    cases.push_back(reduce({n, 5}, {true, false}));
    cases.push_back(reduce({n}, {true}, kMax));
  }
  for (const Reference& r : {kSum, kMax, kMin, kProd}) {
    cases.push_back(reduce({3, 70}, {false, true}, r));
    cases.push_back(reduce({70, 33}, {true, false}, r));
    cases.push_back(reduce({2, 3, 4, 5}, {true, false, true, false}, r));
    cases.push_back(reduce({2, 3, 4, 5}, {false, true, false, true}, r, DType::F64));
    for (DType t : {DType::I32, DType::I64, DType::F16, DType::BF16}) cases.push_back(reduce({3, 21}, {false, true}, r, t));
  }
  for (const Reference& r : {kSum, kMax}) {
    cases.push_back(reduce({300, 70}, {true, false}, r));
    cases.push_back(reduce({9, 3, 41, 19}, {true, false, true, false}, r, DType::F16));
    cases.push_back(reduce({2, 65, 1}, {false, true, false}, r, DType::I64));
  }
  cases.push_back(reduce({2, 3}, {false, false}));
  cases.push_back(reduce({}, {}));
  cases.push_back(reduce({0, 4}, {true, false}));
  cases.push_back(reduce({4, 0}, {true, false}));
  cases.push_back(reduce({4, 0}, {false, true}));
  cases.push_back(reduce({1, 4, 1}, {true, true, true}));
  cases.push_back(reduce({6, 50}, {false, true}, kSum, DType::F32, true));
  for (int64_t batch : {0, 1, 3, 8, 77}) {
    cases.push_back(reduce({batch, 37}, {false, true}, kMax, DType::F32, false, true));
    cases.push_back(reduce({batch, 37}, {true, false}, kSum, DType::F32, false, true));
    cases.push_back(reduce({batch}, {true}, kSum, DType::F32, false, true));
  }
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}
