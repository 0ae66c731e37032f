#include "plan/validate.h"

#include <algorithm>
#include <array>
#include <set>

namespace rlxc::plan {
namespace {

std::string describe(const Problem& p, const std::vector<uint64_t>& offsets, uint32_t i) {
  const Buffer& b = p.buffers[i];
  return "buffer " + std::to_string(i) + " (bytes " + std::to_string(offsets[i]) + ".." + std::to_string(offsets[i] + b.size) +
         ", steps " + std::to_string(b.start) + ".." + std::to_string(b.end) + ")";
}

}  // namespace

std::vector<Finding> validate(const Problem& p, const std::vector<uint64_t>& offsets, uint64_t arena, size_t limit) {
  std::vector<Finding> findings;
  auto report = [&](FindingKind kind, uint32_t i, uint32_t j, std::string text) {
    if (findings.size() < limit) findings.push_back({kind, i, j, std::move(text)});
  };
  const uint32_t n = static_cast<uint32_t>(p.buffers.size());
  if (offsets.size() != n) {
    report(FindingKind::Missing, 0, 0, std::to_string(offsets.size()) + " offsets for " + std::to_string(n) + " buffers");
    return findings;
  }

  // (step, 0 = end | 1 = begin, buffer). Ends come first, so a byte may be reused at the same step.
  std::vector<std::array<int64_t, 3>> events;
  for (uint32_t i = 0; i < n; ++i) {
    const Buffer& b = p.buffers[i];
    if (b.fixed != Buffer::kFree && offsets[i] != b.fixed)
      report(FindingKind::Moved, i, i, describe(p, offsets, i) + " is not at its fixed offset " + std::to_string(b.fixed));
    if (b.align == 0 || offsets[i] % b.align != 0)
      report(FindingKind::Misaligned, i, i, describe(p, offsets, i) + " is not aligned to " + std::to_string(b.align));
    if (offsets[i] > arena || b.size > arena - offsets[i])
      report(FindingKind::OutsideArena, i, i,
             describe(p, offsets, i) + " leaves the arena of " + std::to_string(arena) + " bytes");
    else if (b.size > 0 && b.start < b.end) {
      events.push_back({b.start, 1, i});
      events.push_back({b.end, 0, i});
    }
  }
  std::sort(events.begin(), events.end());

  // Live buffers by offset. Buffers found to overlap are left out, so the rest is disjoint and a new buffer can overlap only the
  // one below it and those that begin within it.
  std::set<std::pair<uint64_t, uint32_t>> live;
  for (const auto& [step, born, index] : events) {
    const uint32_t i = static_cast<uint32_t>(index);
    if (!born) {
      live.erase({offsets[i], i});
      continue;
    }
    if (findings.size() >= limit) break;
    const uint64_t end = offsets[i] + p.buffers[i].size;
    bool clean = true;
    auto overlap = [&](uint32_t j) {
      clean = false;
      report(FindingKind::Overlap, i, j, describe(p, offsets, i) + " overlaps " + describe(p, offsets, j));
    };
    auto above = live.lower_bound({offsets[i], 0});
    if (above != live.begin()) {
      const uint32_t below = std::prev(above)->second;
      if (offsets[below] + p.buffers[below].size > offsets[i]) overlap(below);
    }
    for (; above != live.end() && above->first < end && findings.size() < limit; ++above) overlap(above->second);
    if (clean) live.emplace(offsets[i], i);
  }
  return findings;
}

}  // namespace rlxc::plan
