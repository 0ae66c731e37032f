#include "plan/step_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

using namespace rlxc::plan;

TEST_CASE("steps are ordered as by a stable sort") {
  std::mt19937_64 random(1);
  for (const int64_t span : {int64_t{1}, int64_t{5}, int64_t{3000}, int64_t{1} << 40, std::numeric_limits<int64_t>::max()})
    for (const size_t n : {0, 1, 2, 1000}) {
      std::vector<int64_t> steps(n);
      for (int64_t& s : steps) s = std::uniform_int_distribution<int64_t>(-span, span - 1)(random);
      std::vector<uint32_t> expected(n);
      std::iota(expected.begin(), expected.end(), 0u);
      std::ranges::stable_sort(expected, {}, [&](uint32_t i) { return steps[i]; });
      CHECK(order_by_step(steps) == expected);
    }
}
