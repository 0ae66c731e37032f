#include "plan/eject.h"

#include <doctest/doctest.h>

#include "plan/validate.h"
#include "support/random.h"

using namespace rlxc::plan;
using rlxc::test::Random;

TEST_CASE("ejections lower a placement, keep alignments and leave fixed items where they are") {
  Random random{5};
  int lowered = 0;
  for (int round = 0; round < 40; ++round) {
    Problem p;
    for (int i = 0; i < 200; ++i) {
      const int64_t start = random.below(100);
      const uint64_t align = round % 2 ? uint64_t{1} << random.below(4) : 1;
      p.buffers.push_back({start, start + 1 + static_cast<int64_t>(random.below(20)), 1 + random.below(100), align});
    }
    if (round % 4 < 2) p.buffers.push_back({20, 70, 10, 1, 50});
    p.buffers.push_back({0, 0, 0, 1});  // makes the unit of offsets 1
    for (const Instance& part : split(p).parts) {
      Placement best;  // stacked, with fixed items at their offsets
      int64_t top = 64;
      for (const Item& i : part.items) {
        top = (top + i.align - 1) / i.align * i.align;
        best.offsets.push_back(i.fixed == Item::kFree ? top : i.fixed);
        top += i.size;
      }
      const int64_t stacked = best.height = top;
      uint64_t work = 3'000'000;
      place_by_ejection(part, part.bound, &work, best);
      lowered += best.height < stacked / 3;
      Problem placed;
      std::vector<uint64_t> offsets;
      for (size_t k = 0; k < part.items.size(); ++k) {
        placed.buffers.push_back(p.buffers[part.items[k].buffer]);
        offsets.push_back(static_cast<uint64_t>(best.offsets[k]));
      }
      const auto findings = validate(placed, offsets, static_cast<uint64_t>(best.height));
      CHECK_MESSAGE(findings.empty(), (findings.empty() ? "" : findings[0].text));
    }
  }
  CHECK(lowered >= 40);
}
