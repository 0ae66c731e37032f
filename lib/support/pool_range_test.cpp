#include "support/pool_range.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace rlxc;

static_assert(std::random_access_iterator<PoolRange<int>::Iterator>);
static_assert(std::ranges::sized_range<PoolRange<int>> && std::ranges::borrowed_range<PoolRange<int>>);
static_assert(!std::ranges::contiguous_range<PoolRange<int>>, "a span of it would dangle when the vector grows");

TEST_CASE("a range over a part of a vector is read while the vector grows") {
  std::vector<int> pool{1, 2, 3, 4};
  const PoolRange<int> part(pool, 1, 3);
  std::vector<int> seen;
  for (const int& v : part) {
    pool.resize(pool.capacity() + 1);  // moves the elements
    seen.push_back(v);
  }
  CHECK(seen == std::vector{2, 3, 4});
  CHECK(part.copy() == seen);
}

TEST_CASE("a range over a part of a vector answers as a span would") {
  const std::vector<int> pool{1, 2, 3, 4};
  const PoolRange<int> part(pool, 1, 3), none(pool, 4, 0);
  CHECK(part.front() == 2);
  CHECK(part.back() == 4);
  CHECK(part[1] == 3);
  CHECK(none.empty());
  CHECK(none.begin() == none.end());
  CHECK(part.first(2).copy() == std::vector{2, 3});
  CHECK(part.subspan(1).copy() == std::vector{3, 4});
  CHECK(std::ranges::find(part, 4) - part.begin() == 2);
  CHECK(part.begin() < part.end());
  CHECK(part.end()[-1] == 4);
}
