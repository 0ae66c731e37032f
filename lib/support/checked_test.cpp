#include "support/checked.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace rlxc;

static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
static constexpr uint64_t kUMax = std::numeric_limits<uint64_t>::max();

TEST_CASE("checked arithmetic answers nullopt at the edges") {
  CHECK(checked_add(kMax - 1, 1) == kMax);
  CHECK_FALSE(checked_add(kMax, 1));
  CHECK_FALSE(checked_add(kUMax, 1));
  CHECK_FALSE(checked_sub(uint64_t{0}, 1));
  CHECK_FALSE(checked_sub(kMin, 1));
  CHECK(checked_sub(int64_t{0}, 1) == -1);
  CHECK_FALSE(checked_mul(kMin, -1));
  CHECK(checked_mul(int64_t{1} << 31, int64_t{1} << 31) == int64_t{1} << 62);
  CHECK_FALSE(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32));
}

TEST_CASE("the product of dims") {
  using V = std::vector<int64_t>;
  CHECK(checked_product(V{}) == 1);
  CHECK(checked_product(V{2, 3, 4}) == 24);
  CHECK(checked_product(V{kMax, kMax, 0}) == 0);
  CHECK_FALSE(checked_product(V{kMax, 2}));
  CHECK_FALSE(checked_product(V{-1}));
  CHECK_FALSE(checked_product(V{0, -1}));
}

TEST_CASE("align_up and in_bounds") {
  CHECK(align_up(0, 64) == 0);
  CHECK(align_up(1, 64) == 64);
  CHECK(align_up(64, 64) == 64);
  CHECK(align_up(10, 12) == 12);
  CHECK_FALSE(align_up(kUMax - 3, 64));
  CHECK(in_bounds(4, 4, 8));
  CHECK(in_bounds(8, 0, 8));
  CHECK_FALSE(in_bounds(4, 5, 8));
  CHECK_FALSE(in_bounds(9, 0, 8));
  CHECK_FALSE(in_bounds(2, kUMax, 8));
}
