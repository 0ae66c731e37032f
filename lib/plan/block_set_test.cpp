#include "plan/block_set.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>

#include "support/random.h"

using namespace rlxc::plan;

TEST_CASE("a set in blocks has the keys of std::set after random insertions and removals") {
  rlxc::test::Random random{7};
  for (const uint64_t keys : {3, 600, 20000}) {
    BlockSet<uint64_t> set;
    std::set<uint64_t> expected;
    for (int step = 0; step < 30000; ++step) {
      const uint64_t key = random.below(keys);
      if (random.below(2) == 0) {
        expected.erase(key);
        set.erase(key);
      } else if (expected.insert(key).second) {
        set.insert(key);
      }
      const uint64_t probe = random.below(keys);
      const auto found = set.lower_bound(probe);
      const auto wanted = expected.lower_bound(probe);
      REQUIRE((found == set.end()) == (wanted == expected.end()));
      if (wanted != expected.end()) REQUIRE(set.at(found) == *wanted);
      REQUIRE((found == set.begin()) == (wanted == expected.begin()));
      if (wanted != expected.begin()) REQUIRE(set.at(set.prev(found)) == *std::prev(wanted));
    }
    auto at = set.begin();
    for (const uint64_t key : expected) {
      REQUIRE(set.at(at) == key);
      at = set.next(at);
    }
    CHECK(at == set.end());
  }
}

TEST_CASE("a key is replaced and removed at its place") {
  BlockSet<uint64_t> set;
  for (uint64_t key = 0; key < 3000; ++key) set.insert(2 * key);
  for (uint64_t key = 0; key < 3000; ++key) {
    const auto at = set.lower_bound(2 * key);
    if (key % 3 == 0) set.erase_at(at);
    else set.replace(at, 2 * key + 1);
  }
  auto at = set.begin();
  for (uint64_t key = 0; key < 3000; ++key) {
    if (key % 3 == 0) continue;
    REQUIRE(set.at(at) == 2 * key + 1);
    at = set.next(at);
  }
  CHECK(at == set.end());
}
