#include "support/repeated_bytes.h"

#include <doctest/doctest.h>

#include <vector>

namespace rlxc {

TEST_CASE("a block of bytes repeats along a range that is far larger than memory") {
  std::vector<std::byte> block(17 * kRepeatGranule);
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i * 7 / 5);
  const uint64_t large = uint64_t{1} << 34;
  const auto all = RepeatedBytes::make(block, large);
  REQUIRE(all);
  CHECK(all->bytes().size() >= large);
  for (uint64_t at : {uint64_t{0}, uint64_t{block.size() - 1}, uint64_t{block.size()}, large / 2 + 1, large - 1})
    CHECK(all->bytes()[at] == block[at % block.size()]);
}

TEST_CASE("a block that is no whole number of pages does not repeat") {
  CHECK(!RepeatedBytes::make(std::vector<std::byte>(100), 1000));
  CHECK(!RepeatedBytes::make({}, 1000));
}

}  // namespace rlxc
