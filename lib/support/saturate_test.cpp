#include "support/saturate.h"

#include <doctest/doctest.h>

using namespace rlxc;

TEST_CASE("numbers that an integer type can't hold become its nearest limit, and NaN 0") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  CHECK(saturating_cast<int64_t>(-1.9) == -1);
  CHECK(saturating_cast<int64_t>(0x1p63) == INT64_MAX);
  CHECK(saturating_cast<int64_t>(-0x1p63) == INT64_MIN);
  CHECK(saturating_cast<int64_t>(inf) == INT64_MAX);
  CHECK(saturating_cast<int64_t>(-inf) == INT64_MIN);
  CHECK(saturating_cast<int64_t>(std::numeric_limits<double>::quiet_NaN()) == 0);
  CHECK(saturating_cast<uint64_t>(-1) == 0);
  CHECK(saturating_cast<uint64_t>(0x1p64) == UINT64_MAX);
  CHECK(saturating_cast<int8_t>(127.5) == 127);
  CHECK(saturating_cast<int8_t>(-128.5) == -128);
}
