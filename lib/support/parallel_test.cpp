#include "support/parallel.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace rlxc;

TEST_CASE("every task runs once") {
  for (const size_t count : {0, 1, 2, 1000}) {
    std::vector<int> runs(count);
    run_in_parallel(count, [&](size_t i) { ++runs[i]; });
    CHECK(std::accumulate(runs.begin(), runs.end(), size_t{0}) == count);
    CHECK(std::ranges::count(runs, 1) == static_cast<int64_t>(count));
  }
}
