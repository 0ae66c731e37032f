// Offsets for the CSV files given, within the capacity if one is given, then for synthetic schedules of growing size and for
// 2,000 random instances of five families.
//   plan_bench [--capacity BYTES] [buffers.csv ...]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include "plan/csv.h"
#include "plan/solve.h"
#include "plan/validate.h"
#include "support/diagnostics.h"
#include "support/random.h"

using namespace rlxc;
using namespace rlxc::plan;
using rlxc::test::Random;

namespace {

// One buffer a step. Short: lives of 1 to 40 steps. Layered: most are read within four steps, one in `keep` lives on for up to
// 400.
Problem synthetic(size_t n, uint64_t keep) {
  Random random{n};
  Problem p;
  for (size_t i = 0; i < n; ++i) {
    Buffer b;
    b.start = static_cast<int64_t>(i);
    b.end = b.start + 2 +
            static_cast<int64_t>(keep == 0                 ? random.below(39)
                                 : random.below(keep) == 0 ? random.below(400)
                                                           : random.below(3));
    b.size = (1 + random.below(16)) << (6 + random.below(9));
    p.buffers.push_back(b);
  }
  return p;
}

void row(const std::string& name, const Problem& p, const SolveOptions& options) {
  const std::clock_t begin = std::clock();
  const Solution s = solve(p, options);
  const double ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const bool clean = validate(p, s.offsets, s.height).empty();
  std::printf("%-28s %7zu %14llu %14llu %8.5f %10.2f %9llu %s%s%s\n", name.c_str(), p.buffers.size(),
              static_cast<unsigned long long>(s.lower_bound), static_cast<unsigned long long>(s.height),
              s.lower_bound > 0 ? static_cast<double>(s.height) / static_cast<double>(s.lower_bound) : 1.0, ms,
              static_cast<unsigned long long>(s.nodes_searched), s.method.c_str(), s.fits ? "" : ", DOES NOT FIT",
              clean ? "" : ", INVALID");
}

// Random lives and sizes of a family, 2 to 2,000 buffers: the number is drawn evenly in its logarithm.
Problem drawn(Random& random, int family) {
  const auto n = static_cast<size_t>(2 * std::pow(1000.0, static_cast<double>(random.below(1 << 20)) / (1 << 20)));
  const uint64_t steps = family == 1 ? n / 2 + 2 : n + 1, longest = 1 + random.below(family == 2 ? n / 2 + 2 : 60);
  Problem p;
  for (size_t i = 0; i < n; ++i) {
    Buffer b;
    b.start = static_cast<int64_t>(family == 0 ? i : random.below(steps));
    b.end = b.start + 1 + static_cast<int64_t>(family == 3 && random.below(6) > 0 ? random.below(4) : random.below(longest));
    b.size = family == 4 ? uint64_t{64} << random.below(12) : 64 * (1 + random.below(1000));
    p.buffers.push_back(b);
  }
  return p;
}

void random_instances() {
  constexpr const char* kFamilies[] = {"one a step", "dense", "long lives", "mixed lives", "powers of two"};
  constexpr int kInstances = 400;  // of each
  std::printf("\n%-16s %9s %9s %9s %9s %9s %9s %9s\n", "random", "mean", "max", "above LB", "unproved", "invalid", "CPU ms",
              "max ms");
  for (int family = 0; family < 5; ++family) {
    Random random{static_cast<uint64_t>(family + 1)};
    double sum = 0, most = 0, total = 0, longest = 0;
    int above = 0, unproved = 0, invalid = 0;
    for (int i = 0; i < kInstances; ++i) {
      const Problem p = drawn(random, family);
      const std::clock_t begin = std::clock();
      const Solution s = solve(p);
      const double ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      const double ratio = static_cast<double>(s.height) / static_cast<double>(s.lower_bound);
      sum += ratio, most = std::max(most, ratio), above += s.height > s.lower_bound, unproved += !s.optimal;
      total += ms, longest = std::max(longest, ms);
      invalid += !validate(p, s.offsets, s.height).empty();
    }
    std::printf("%-16s %9.5f %9.5f %9d %9d %9d %9.2f %9.2f\n", kFamilies[family], sum / kInstances, most, above, unproved,
                invalid, total / kInstances, longest);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("%-28s %7s %14s %14s %8s %10s %9s %s\n", "instance", "buffers", "lower bound", "height", "ratio", "CPU ms", "nodes",
              "method");
  uint64_t capacity = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--capacity" && i + 1 < argc) {
      capacity = std::strtoull(argv[++i], nullptr, 10);
      continue;
    }
    std::ifstream file(arg);
    std::stringstream text;
    text << file.rdbuf();
    BufferTable table;
    Diagnostics diagnostics(arg);
    if (!read_csv(text.str(), &table, diagnostics)) {
      std::fputs(diagnostics.text().c_str(), stderr);
      return static_cast<int>(diagnostics.exit());
    }
    table.problem.capacity = capacity;
    row(arg.substr(arg.find_last_of('/') + 1), table.problem, thorough());
  }
  for (size_t n : {1'000, 3'000, 10'000, 28'000, 100'000}) {
    row("short lives", synthetic(n, 0), {});
    row("layered, 1 in 8 kept", synthetic(n, 8), {});
    row("layered, 1 in 50 kept", synthetic(n, 50), {});
  }
  random_instances();
}
