// Small kernels for tests of the kernel language: index expressions over two loops.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kernel/builder.h"
#include "kernel/interpret.h"
#include "support/random.h"

namespace rlxc::test {

constexpr int64_t kOuter = 6, kInner = 8;

using IndexFn = std::function<kernel::Expr(kernel::Expr i, kernel::Expr j, kernel::Expr n)>;

// y[8i + j] = f(i, j, n) for i < 6, j < 8 and a symbol 0 <= n <= 100.
inline kernel::Kernel index_kernel(const IndexFn& f) {
  kernel::Builder b("k");
  const kernel::Expr n = b.symbol("n", 0, 100);
  const kernel::Buf y = b.output("y", DType::I64, kOuter * kInner);
  b.loop("i", kOuter, [&](kernel::Expr i) { b.loop("j", kInner, [&](kernel::Expr j) { y.store(i * kInner + j, f(i, j, n)); }); });
  return b.finish();
}

// Returns the values that an index kernel stores.
inline std::vector<int64_t> stored(const kernel::Kernel& k, int64_t n) {
  std::vector<int64_t> y(kOuter * kInner, -1);
  void* arguments[] = {y.data()};
  const kernel::InterpretResult run = kernel::interpret(k, arguments, std::vector<int64_t>{n});
  CHECK_MESSAGE(run.ok(), (run.ok() ? "" : run.findings[0]));
  return y;
}

// Returns a random expression over i, j and n with `depth` levels of operators. Divisors are positive constants.
inline kernel::Expr random_index(Random& r, int depth, kernel::Expr i, kernel::Expr j, kernel::Expr n) {
  using namespace kernel;
  if (depth == 0) {
    const uint64_t leaf = r.below(4);
    return leaf == 0 ? i : leaf == 1 ? j : leaf == 2 ? n : lit(i, r.integer(-3, 12));
  }
  const Expr a = random_index(r, depth - 1, i, j, n);
  const uint64_t op = r.below(9);
  if (op == 0) return a * lit(a, r.integer(-4, 8));
  if (op == 1) return a / lit(a, r.integer(1, 8));
  if (op == 2) return a % lit(a, r.integer(1, 8));
  const Expr b = random_index(r, depth - 1, i, j, n);
  if (op == 3) return min(a, b);
  if (op == 4) return max(a, b);
  if (op == 5) return select(a < b, a, b + 1);
  return op == 6 ? a - b : a + b;
}

// Returns the statements of a kernel as lines without indentation.
inline std::vector<std::string> lines(const kernel::Kernel& k) {
  std::vector<std::string> out;
  std::string line;
  for (char c : to_text(k)) {
    if (c == '\n') {
      out.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
      line.clear();
    } else {
      line += c;
    }
  }
  return out;
}
inline bool has_line(const kernel::Kernel& k, const std::string& line) {
  const std::vector<std::string> all = lines(k);
  return std::ranges::find(all, line) != all.end();
}
inline size_t position(const kernel::Kernel& k, const std::string& line) {
  const std::vector<std::string> all = lines(k);
  return static_cast<size_t>(std::ranges::find(all, line) - all.begin());
}

}  // namespace rlxc::test
