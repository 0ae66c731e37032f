#include "plan/problem.h"

#include <doctest/doctest.h>

#include "support/diagnostics.h"

using namespace rlxc;
using namespace rlxc::plan;

TEST_CASE("the peak is the largest sum of live slots, at its first step") {
  Problem p;
  p.buffers = {{0, 4, 100, 64}, {2, 6, 10, 64}, {4, 8, 300, 64}, {5, 5, 1000, 64}, {5, 6, 0, 64}};
  const PeakInfo info = peak(p);
  CHECK(info.bytes == 64 + 320);
  CHECK(info.step == 4);
  CHECK(info.buffers == std::vector<uint32_t>{1, 2});
  CHECK(lower_bound(p) == 1024);  // a buffer that is never live still has to fit
  CHECK(slot_unit(p) == 64);
}

TEST_CASE("steps may be negative and as far apart as 64 bits allow") {
  Problem p;
  p.buffers = {{INT64_MIN, INT64_MAX, 1, 1}, {-5, 5, 2, 1}};
  CHECK(peak(p).bytes == 3);
  CHECK(peak(p).step == -5);
}

TEST_CASE("a problem that cannot be planned is refused with the buffer named") {
  auto text = [](std::vector<Buffer> buffers) {
    Problem p;
    p.buffers = std::move(buffers);
    Diagnostics d;
    CHECK_FALSE(check(p, d));
    return d.text();
  };
  CHECK(text({{0, 1, 8, 8}, {3, 2, 8, 8}}).find("buffer 1: its life ends at 2, before it starts at 3") != std::string::npos);
  CHECK(text({{0, 1, 8, 0}}).find("alignment is 0") != std::string::npos);
  CHECK(text({{0, 1, 8, 8, 4}}).find("fixed offset 4") != std::string::npos);
  CHECK(text({{0, 1, uint64_t{1} << 62, 8}, {0, 1, 1, 1}}).find("2^62") != std::string::npos);
  CHECK(text({{0, 1, ~uint64_t{0}, ~uint64_t{0}}}).find("2^62") != std::string::npos);
  CHECK(text({{0, 5, 64, 64, 0}, {5, 9, 64, 64, 0}, {8, 10, 64, 64, 128}, {3, 6, 64, 32, 32}})
            .find("buffer 3: its fixed bytes overlap") != std::string::npos);
  Problem p;
  p.buffers = {{0, 5, 64, 64, 0}, {5, 9, 64, 64, 0}, {8, 10, 64, 64, 64}};
  Diagnostics d;
  CHECK(check(p, d));
}
