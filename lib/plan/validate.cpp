#include "plan/validate.h"

#include "plan/block_set.h"
#include "plan/step_order.h"

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

  std::vector<uint32_t> placed;
  std::vector<int64_t> starts, ends;
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
      placed.push_back(i);
      starts.push_back(b.start);
      ends.push_back(b.end);
    }
  }
  const std::vector<uint32_t> by_start = order_by_step(starts), by_end = order_by_step(ends);

  // Live buffers by offset. Buffers found to overlap are left out, so the rest is disjoint and a new buffer can overlap only the
  // one below it and those that begin within it.
  BlockSet<std::pair<uint64_t, uint32_t>> live;
  size_t ended = 0;
  for (size_t begun = 0; begun < by_start.size(); ++begun) {
    constexpr size_t kAhead = 16;  // buffers are in any order: each look-up would miss the cache
    if (begun + 2 * kAhead < by_start.size()) {
      const uint32_t soon = placed[by_start[begun + kAhead]];
      __builtin_prefetch(&p.buffers[soon]);
      __builtin_prefetch(&offsets[soon]);
      __builtin_prefetch(&placed[by_start[begun + 2 * kAhead]]);
      __builtin_prefetch(&starts[by_start[begun + 2 * kAhead]]);
      __builtin_prefetch(&ends[by_end[ended + 2 * kAhead]]);
    }
    const uint32_t k = by_start[begun], i = placed[k];
    for (; ends[by_end[ended]] <= starts[k]; ++ended) {  // a byte may be reused at the same step
      const uint32_t dead = placed[by_end[ended]];
      live.erase({offsets[dead], dead});
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
      const uint32_t below = live.at(live.prev(above)).second;
      if (offsets[below] + p.buffers[below].size > offsets[i]) overlap(below);
    }
    for (; above != live.end() && live.at(above).first < end && findings.size() < limit; above = live.next(above))
      overlap(live.at(above).second);
    if (clean) live.insert({offsets[i], i});
  }
  return findings;
}

}  // namespace rlxc::plan
