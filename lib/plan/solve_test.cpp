#include "plan/solve.h"

#include <doctest/doctest.h>

#include "plan/validate.h"
#include "support/random.h"

using namespace rlxc::plan;
using rlxc::test::Random;

namespace {

Problem random_problem(Random& random, size_t n, uint64_t steps, uint64_t longest, uint64_t largest, uint64_t unit) {
  Problem p;
  for (size_t i = 0; i < n; ++i) {
    const int64_t start = random.below(steps);
    p.buffers.push_back(
        {start, start + 1 + static_cast<int64_t>(random.below(longest)), (1 + random.below(largest)) * unit, unit});
  }
  return p;
}

void check_clean(const Problem& p, const Solution& s) {
  const auto findings = validate(p, s.offsets, s.height);
  CHECK_MESSAGE(findings.empty(), (findings.empty() ? "" : findings[0].text));
  CHECK(s.lower_bound == lower_bound(p));
  CHECK(s.height >= s.lower_bound);
}

// Exhaustive search over all offsets up to `height`.
bool brute_force(const Problem& p, uint64_t height, std::vector<uint64_t>& offsets) {
  const size_t i = offsets.size();
  if (i == p.buffers.size()) return true;
  const Buffer& b = p.buffers[i];
  for (uint64_t at = 0; at + b.size <= height; at += b.align) {
    bool free = true;
    for (size_t j = 0; j < i; ++j) {
      const Buffer& o = p.buffers[j];
      if (b.start < o.end && o.start < b.end && at < offsets[j] + o.size && offsets[j] < at + b.size) free = false;
    }
    if (!free) continue;
    offsets.push_back(at);
    if (brute_force(p, height, offsets)) return true;
    offsets.pop_back();
  }
  return false;
}

// A rectangle of 64 steps by 64 bytes cut into at most `n` buffers. The best height is 64, without free space.
void cut(Random& random, int64_t start, int64_t end, uint64_t size, size_t n, Problem& p) {
  const bool wide = end - start > 1, tall = size > 1;
  if (n <= 1 || (!wide && !tall)) {
    p.buffers.push_back({start, end, size, 1});
    return;
  }
  const size_t left = 1 + random.below(n - 1);
  if (wide && (!tall || random.below(2) == 0)) {
    const int64_t at = start + 1 + static_cast<int64_t>(random.below(end - start - 1));
    cut(random, start, at, size, left, p);
    cut(random, at, end, size, n - left, p);
  } else {
    const uint64_t at = 1 + random.below(size - 1);
    cut(random, start, end, at, left, p);
    cut(random, start, end, size - at, n - left, p);
  }
}

}  // namespace

TEST_CASE("tiny problems are solved as well as by trying everything, and proved so") {
  Random random{1};
  for (int round = 0; round < 400; ++round) {
    Problem p = random_problem(random, 2 + random.below(5), 6, 4, 4, 1);
    if (round % 2)
      for (Buffer& b : p.buffers) b.align = 1 + random.below(2);
    const Solution s = solve(p);
    check_clean(p, s);
    CHECK(s.optimal);
    std::vector<uint64_t> offsets;
    if (s.height > s.lower_bound) CHECK_FALSE(brute_force(p, s.height - 1, offsets));
  }
}

TEST_CASE("each pruning rule leaves the answers as they are") {
  Random random{2};
  for (int round = 0; round < 60; ++round) {
    const Problem p = random_problem(random, 9, 8, 4, 6, 1);
    const uint64_t height = solve(p).height;
    for (bool SearchOptions::*rule : {&SearchOptions::dominance, &SearchOptions::deferral, &SearchOptions::staircase,
                                      &SearchOptions::twins, &SearchOptions::memo, &SearchOptions::decomposition}) {
      SolveOptions options;
      options.greedy = false;
      options.pruning.*rule = false;
      const Solution s = solve(p, options);
      CHECK(s.height == height);
      CHECK(s.optimal);
    }
  }
}

TEST_CASE("rectangles cut to pieces are put together again") {
  Random random{7};
  for (size_t n : {10, 20, 40, 60}) {
    for (int round = 0; round < 4; ++round) {
      Problem p;
      cut(random, 0, 64, 64, n, p);
      const Solution s = solve(p);
      check_clean(p, s);
      CHECK(s.lower_bound == 64);
      CHECK(s.height == 64);
    }
  }
}

TEST_CASE("rectangles with holes are put together again where the holes are filled") {
  size_t filled = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random{seed};
    Problem p;
    cut(random, 0, 2000, 1 << 16, 150, p);
    size_t k = 0;
    std::erase_if(p.buffers, [&](const Buffer&) { return k++ % 30 == 7; });
    p.capacity = 1 << 16;
    SolveOptions options;
    options.greedy = options.skyline = options.ejection = false;
    options.search_work_to_fit = 100'000'000;
    const Solution s = solve(p, options);
    check_clean(p, s);
    filled += s.fits && s.method == "search with all room filled";
  }
  CHECK(filled > 0);
}

TEST_CASE("random problems come close to the lower bound") {
  Random random{11};
  double sum = 0;
  int count = 0;
  for (size_t n : {2, 3, 5, 10, 20, 50, 100, 200, 400, 800}) {
    for (uint64_t longest : {3, 20, 60}) {
      const Problem p = random_problem(random, n, n, longest, 1000, 64);
      const Solution s = solve(p);
      check_clean(p, s);
      const double ratio = static_cast<double>(s.height) / static_cast<double>(s.lower_bound);
      CHECK(ratio <= 1.05);
      sum += ratio;
      ++count;
    }
  }
  CHECK(sum / count <= 1.005);
}

TEST_CASE("28,000 short lives end within 3 % of the bound, 100,000 end at all, in bounded work") {
  Random random{13};
  const Problem p = random_problem(random, 28'000, 28'000, 40, 1000, 64);
  const Solution s = solve(p);
  check_clean(p, s);
  CHECK(static_cast<double>(s.height) <= 1.03 * static_cast<double>(s.lower_bound));
  const Problem q = random_problem(random, 100'000, 3'000, 40, 1000, 64);  // more than a thousand are live at once
  check_clean(q, solve(q));
}

TEST_CASE("thousands of short lives among long ones end within 3 % of the bound") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Random random{seed};
    Problem p;
    for (int64_t i = 0; i < 10'000; ++i) {
      const int64_t life = 2 + static_cast<int64_t>(random.below(8) == 0 ? random.below(400) : random.below(3));
      p.buffers.push_back({i, i + life, (1 + random.below(16)) << (6 + random.below(9)), 64});
    }
    const Solution s = solve(p);
    check_clean(p, s);
    CHECK(static_cast<double>(s.height) <= 1.03 * static_cast<double>(s.lower_bound));
  }
}

TEST_CASE("with a capacity the search goes on until the plan fits, and not below unless asked") {
  Random random{17};
  Problem p;
  cut(random, 0, 64, 64, 50, p);
  p.capacity = 64;
  CHECK(solve(p).fits);
  p.capacity = 1000;
  SolveOptions options;
  CHECK(solve(p, options).fits);
  options.minimise = true;
  CHECK(solve(p, options).height == 64);
}

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
    for (Buffer& b : p.buffers) b.align = uint64_t{1} << random.below(7);
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
