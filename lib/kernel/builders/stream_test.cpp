// Results that no cache holds, written past the caches: the same values as other results.
#include <doctest/doctest.h>

#include <cmath>

#include "kernel/builders/map.h"
#include "kernel/builders/row.h"
#include "kernel/verify.h"
#include "support/kernel_check.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

// The same machine, with a cache so small that each result is streamed.
Mapping streaming(const Mapping& m) {
  Mapping s = m;
  if (!m.workgroups) s.last_cache = 1;
  return s;
}

KernelCase twice(int64_t n, DType t) {
  KernelCase c;
  c.name = "twice " + std::to_string(n) + " " + std::string(name(t));
  c.build = [=](kernel::Builder& b, const Mapping& m) {
    MapSpec spec;
    spec.shape = {n};
    spec.inputs = {dense(b.kernel(), "x", t, spec.shape)};
    spec.outputs = {dense(b.kernel(), "y", t, spec.shape)};
    spec.body = [](const std::vector<Expr>& v) { return std::vector<Expr>{v[0] + v[0]}; };
    build_map(b, spec, streaming(m));
  };
  CheckBuffer x{t, random_values(static_cast<size_t>(n), t, -9, 9, 1)}, y{t, {}, true};
  for (double v : x.values) y.values.push_back(v + v);
  c.buffers = {x, y};
  return c;
}

KernelCase softmax(int64_t rows, int64_t columns, bool log) {
  KernelCase c;
  c.name = (log ? "log softmax " : "softmax ") + std::to_string(rows) + " x " + std::to_string(columns);
  c.build = [=](kernel::Builder& b, const Mapping& m) {
    SoftmaxSpec spec;
    spec.shape = {rows, columns}, spec.axis = 1, spec.log = log;
    build_softmax(b, spec, streaming(m));
  };
  const auto n = static_cast<size_t>(columns);
  CheckBuffer x{DType::F32, random_values(static_cast<size_t>(rows) * n, DType::F32, -4, 4, 2)}, y{DType::F32, {}, true};
  for (size_t i = 0; i < x.values.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) sum += std::exp(x.values[i / n * n + j]);
    y.values.push_back(log ? x.values[i] - std::log(sum) : std::exp(x.values[i]) / sum);
  }
  c.buffers = {x, y};
  return c;
}

}  // namespace

TEST_CASE("streamed results") {
  std::vector<KernelCase> cases;
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::I8})
    for (int64_t n : {1, 16, 35, 128, 1000}) cases.push_back(twice(n, t));
  for (bool log : {false, true})
    for (const auto& [rows, columns] : {std::pair{1, 5}, {3, 16}, {9, 35}, {5, 1024}, {2, 4096}, {2, 5000}})
      cases.push_back(softmax(rows, columns, log));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("a streamed result is not read") {
  kernel::Builder b("k");
  const Buf y = b.output("y", DType::F32, 8);
  Mapping m;
  m.last_cache = 33;
  CHECK_FALSE(stream(y, m));
  m.last_cache = 32;
  CHECK(stream(y, m));
  y.store(0, y.load(1) + 1);
  const Kernel k = b.finish();
  const auto problems = verify(k, {});
  REQUIRE(!problems.empty());
  CHECK(problems[0].find("reads the streamed buffer y") != std::string::npos);
}
