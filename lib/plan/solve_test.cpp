#include "plan/solve.h"

#include <doctest/doctest.h>

#include "plan/validate.h"

using namespace rlxc::plan;

namespace {

// Deterministic and independent of the library: splitmix64.
struct Random {
  uint64_t state;
  uint64_t operator()(uint64_t below) {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % below;
  }
};

Problem random_problem(Random& random, size_t n, uint64_t steps, uint64_t longest, uint64_t largest, uint64_t unit) {
  Problem p;
  for (size_t i = 0; i < n; ++i) {
    const int64_t start = random(steps);
    p.buffers.push_back({start, start + 1 + static_cast<int64_t>(random(longest)), (1 + random(largest)) * unit, unit});
  }
  return p;
}

void check_clean(const Problem& p, const Solution& s) {
  const auto findings = validate(p, s.offsets, s.height);
  CHECK_MESSAGE(findings.empty(), (findings.empty() ? "" : findings[0].text));
  CHECK(s.lower_bound == lower_bound(p));
  CHECK(s.height >= s.lower_bound);
}

}  // namespace

TEST_CASE("no buffers, empty buffers and one buffer") {
  Problem p;
  CHECK(solve(p).height == 0);
  CHECK(solve(p).optimal);
  p.buffers = {{0, 5, 0, 64}, {3, 3, 100, 64}, {0, 1, 100, 64}};
  const Solution s = solve(p);
  check_clean(p, s);
  CHECK(s.height == 128);
}

TEST_CASE("a problem that cannot be planned gets no offsets") {
  Problem p;
  p.buffers = {{3, 1, 8, 8}};
  CHECK(solve(p).offsets.empty());
  CHECK_FALSE(solve(p).fits);
}

TEST_CASE("fixed buffers stay, the others go around them") {
  Problem p;
  p.buffers = {{0, 9, 64, 64, 128}, {0, 9, 128, 64}, {2, 4, 64, 64}, {0, 3, 64, 64, 256}};
  const Solution s = solve(p);
  check_clean(p, s);
  CHECK(s.height == 320);
}

TEST_CASE("mixed alignments are kept") {
  Random random{3};
  for (int round = 0; round < 50; ++round) {
    Problem p = random_problem(random, 40, 20, 6, 100, 1);
    for (Buffer& b : p.buffers) b.align = uint64_t{1} << random(7);
    check_clean(p, solve(p));
  }
}

TEST_CASE("the plan is the same on every run and knows whether it fits") {
  Random random{5};
  Problem p = random_problem(random, 200, 100, 20, 50, 64);
  const Solution a = solve(p), b = solve(p);
  check_clean(p, a);
  CHECK(a.offsets == b.offsets);
  p.capacity = a.lower_bound - 1;
  CHECK_FALSE(solve(p).fits);
}
