#include "plan/problem.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "support/diagnostics.h"

namespace rlxc::plan {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

std::string name(size_t i) { return "buffer " + std::to_string(i); }

bool is_live(const Buffer& b) { return b.start < b.end && b.size > 0; }

// Two fixed slots clash if they share a step and a byte. Sweeps over starts with the live slots ordered by offset. Live slots are
// disjoint until a clash is found, so a new slot is compared with its two neighbours only.
void check_fixed(const Problem& p, Diagnostics& diagnostics) {
  std::vector<std::pair<int64_t, uint32_t>> starts, ends;
  for (uint32_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.fixed == Buffer::kFree || !is_live(b)) continue;
    starts.emplace_back(b.start, i);
    ends.emplace_back(b.end, i);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  std::map<uint64_t, uint32_t> live;
  size_t next_end = 0;
  for (const auto& start : starts) {
    const int64_t time = start.first;
    const auto i = start.second;
    for (; next_end < ends.size() && ends[next_end].first <= time; ++next_end) {
      auto it = live.find(p.buffers[ends[next_end].second].fixed);
      if (it != live.end() && it->second == ends[next_end].second) live.erase(it);
    }
    const Buffer& b = p.buffers[i];
    auto above = live.lower_bound(b.fixed);
    auto clash = [&](uint32_t j) {
      diagnostics.error(Code::BadBuffers, "its fixed bytes overlap those of " + name(j) + ", which is live at the same time",
                        name(i));
    };
    if (above != live.end() && above->first < b.fixed + b.size) clash(above->second);
    else if (above != live.begin() && std::prev(above)->first + p.buffers[std::prev(above)->second].size > b.fixed)
      clash(std::prev(above)->second);
    else live.emplace(b.fixed, i);
  }
}

}  // namespace

bool check(const Problem& p, Diagnostics& diagnostics) {
  const size_t before = diagnostics.errors();
  uint64_t total = 0;
  if (p.buffers.size() >= 0xFFFFFFFFu) diagnostics.error(Code::TooLarge, "more than 2^32 - 2 buffers");
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.end < b.start)
      diagnostics.error(Code::BadBuffers,
                        "its life ends at " + std::to_string(b.end) + ", before it starts at " + std::to_string(b.start),
                        name(i));
    if (b.align == 0) diagnostics.error(Code::BadBuffers, "alignment is 0, must be >= 1", name(i));
    const bool fixed = b.fixed != Buffer::kFree;
    if (fixed && b.align > 0 && b.fixed % b.align != 0)
      diagnostics.error(
          Code::BadBuffers,
          "fixed offset " + std::to_string(b.fixed) + " is not a multiple of its alignment " + std::to_string(b.align), name(i));
    // A slot takes at most its size, twice its alignment (rounding and the gap before it) and its fixed offset.
    const bool huge = b.size > kMaxBytes || b.align > kMaxBytes / 4 || (fixed && b.fixed > kMaxBytes) ||
                      total + b.size + 2 * b.align + (fixed ? b.fixed : 0) > kMaxBytes;
    if (huge) {
      diagnostics.error(Code::TooLarge, "sizes, alignments and fixed offsets add up to more than 2^62 bytes", name(i));
      return false;
    }
    total += b.size + 2 * b.align + (fixed ? b.fixed : 0);
  }
  if (diagnostics.errors() == before) check_fixed(p, diagnostics);
  return diagnostics.errors() == before;
}

uint64_t slot_unit(const Problem& p) {
  uint64_t unit = 0;
  for (const Buffer& b : p.buffers) {
    unit = std::gcd(unit, b.align);
    if (b.fixed != Buffer::kFree) unit = std::gcd(unit, b.fixed);
    if (unit == 1) break;
  }
  return std::max<uint64_t>(unit, 1);
}

PeakInfo peak(const Problem& p) {
  struct Event {
    int64_t step;
    bool begins;  // ends sort first, because live ranges are half-open
    uint64_t bytes;
  };
  const uint64_t unit = slot_unit(p);
  std::vector<Event> events;
  events.reserve(2 * p.buffers.size());
  for (const Buffer& b : p.buffers)
    if (is_live(b)) {
      events.push_back({b.start, true, round_up(b.size, unit)});
      events.push_back({b.end, false, round_up(b.size, unit)});
    }
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.step != b.step ? a.step < b.step : a.begins < b.begins; });
  PeakInfo info;
  uint64_t live = 0;
  for (const Event& e : events) {
    live = e.begins ? live + e.bytes : live - e.bytes;
    if (live > info.bytes) {
      info.bytes = live;
      info.step = e.step;
    }
  }
  for (uint32_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (is_live(b) && b.start <= info.step && info.step < b.end) info.buffers.push_back(i);
  }
  return info;
}

uint64_t lower_bound(const Problem& p) {
  const uint64_t unit = slot_unit(p);
  uint64_t bound = peak(p).bytes;
  for (const Buffer& b : p.buffers) {
    if (b.size == 0) continue;
    bound = std::max(bound, round_up(b.size, unit) + (b.fixed == Buffer::kFree ? 0 : b.fixed));
  }
  return bound;
}

}  // namespace rlxc::plan
