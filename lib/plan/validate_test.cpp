#include "plan/validate.h"

#include <doctest/doctest.h>

using namespace rlxc::plan;

namespace {

Problem three() {
  Problem p;
  p.buffers = {{0, 4, 64, 64}, {2, 6, 64, 64}, {4, 8, 100, 64}};
  return p;
}

std::vector<FindingKind> kinds(const Problem& p, const std::vector<uint64_t>& offsets, uint64_t arena) {
  std::vector<FindingKind> out;
  for (const Finding& f : validate(p, offsets, arena)) out.push_back(f.kind);
  return out;
}

}  // namespace

TEST_CASE("a valid plan has no findings; a byte may change hands where lives touch") {
  CHECK(validate(three(), {0, 128, 0}, 192).empty());
}

TEST_CASE("each planted fault is found") {
  using K = FindingKind;
  CHECK(kinds(three(), {0, 128}, 192) == std::vector{K::Missing});
  CHECK(kinds(three(), {0, 128, 0}, 191) == std::vector{K::OutsideArena});
  CHECK(kinds(three(), {0, ~uint64_t{0} - 63, 0}, 192) == std::vector{K::OutsideArena});
  CHECK(kinds(three(), {0, 160, 0}, 512) == std::vector{K::Misaligned});
  CHECK(kinds(three(), {0, 64, 0}, 512) == std::vector{K::Overlap});
  CHECK(kinds(three(), {0, 0, 64}, 512) == std::vector{K::Overlap});
  Problem p = three();
  p.buffers[1].fixed = 256;
  CHECK(kinds(p, {0, 128, 0}, 512) == std::vector{K::Moved});
  const auto findings = validate(three(), {0, 64, 0}, 512);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].text == "buffer 2 (bytes 0..100, steps 4..8) overlaps buffer 1 (bytes 64..128, steps 2..6)");
}

TEST_CASE("a buffer that spans several others overlaps each of them") {
  Problem p;
  p.buffers = {{0, 9, 64, 64}, {0, 9, 64, 64}, {0, 9, 64, 64}, {1, 2, 192, 64}};
  CHECK(validate(p, {0, 64, 128, 0}, 192).size() == 3);
  CHECK(validate(p, {0, 64, 128, 0}, 192, 2).size() == 2);
}
