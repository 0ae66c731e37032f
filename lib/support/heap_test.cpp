#include "support/heap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace rlxc;

TEST_CASE("memory keeps its values while another processor clears the pages of the heap") {
  populate_heap(size_t{64} << 20);  // nothing is reserved
  reserve_heap(false);
  for (const size_t bytes : {size_t{0}, size_t{1} << 20, size_t{64} << 20}) {
    populate_heap(bytes);
    std::vector<std::vector<int>> blocks;
    for (int i = 0; i < 100; ++i) blocks.emplace_back(50'000, i);
    for (int i = 0; i < 100; ++i) CHECK(std::ranges::count(blocks[static_cast<size_t>(i)], i) == 50'000);
  }
}
