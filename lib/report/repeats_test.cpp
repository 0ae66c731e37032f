#include "report/repeats.h"

#include <doctest/doctest.h>

#include "support/random.h"

using namespace rlxc;
using namespace rlxc::report;

TEST_CASE("layers between a head and a tail are found, encoder and decoder apart") {
  std::vector<uint32_t> items{90, 91};
  for (int i = 0; i < 12; ++i) items.insert(items.end(), {1, 2, 3, 4});
  items.push_back(92);
  for (int i = 0; i < 6; ++i) items.insert(items.end(), {1, 5, 6});
  items.push_back(93);
  const auto found = repeats(items, 8);
  REQUIRE(found.size() == 2);
  CHECK(found[0].start == 2);
  CHECK((found[0].length == 4 && found[0].count == 12));
  CHECK((found[1].length == 3 && found[1].count == 6));
  CHECK(repeats(items, 1000).empty());
  CHECK(repeats({}, 8).empty());
}

TEST_CASE("runs are disjoint and their parts are equal, for any sequence") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    test::Random random(seed);
    std::vector<uint32_t> items(static_cast<size_t>(random.integer(0, 80)));
    for (uint32_t& i : items) i = static_cast<uint32_t>(random.integer(0, 2));
    size_t end = 0;
    for (const Repeat& r : repeats(items, 4)) {
      CHECK(r.start >= end);
      CHECK((r.length >= 2 && r.count >= 2 && r.length * (r.count - 1) >= 4));
      end = r.start + r.length * r.count;
      REQUIRE(end <= items.size());
      for (size_t i = r.start; i + r.length < end; ++i) CHECK(items[i] == items[i + r.length]);
    }
  }
}
