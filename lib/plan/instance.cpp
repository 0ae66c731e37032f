#include "plan/instance.h"

#include <algorithm>

namespace rlxc::plan {
namespace {

// Walks back over the sections. The stack holds sections whose load exceeds all loads between them and the current one; loads
// ascend from its top down, so the highest load before `hi` is at the deepest entry before `hi`.
void set_loads(Instance& part) {
  std::vector<uint32_t> stack;
  size_t next = part.items.size();
  for (uint32_t s = part.sections(); s-- > 0;) {
    while (!stack.empty() && part.load[stack.back()] <= part.load[s]) stack.pop_back();
    stack.push_back(s);
    for (; next > 0 && part.items[next - 1].lo == s; --next) {
      Item& item = part.items[next - 1];
      item.load = part.load[*std::partition_point(stack.begin(), stack.end(), [&](uint32_t t) { return t >= item.hi; })];
    }
  }
}

void finish(Instance& part, uint32_t first_section, uint32_t end_section) {
  std::vector<int64_t> change(end_section - first_section + 1, 0);
  for (Item& item : part.items) {
    item.lo -= first_section;
    item.hi -= first_section;
    change[item.lo] += item.size;
    change[item.hi] -= item.size;
    part.any_fixed |= item.fixed != Item::kFree;
    part.any_aligned |= item.align > 1;
    part.bound = std::max(part.bound, item.size + std::max<int64_t>(item.fixed, 0));
  }
  part.load.resize(end_section - first_section);
  int64_t live = 0;
  for (size_t s = 0; s < part.load.size(); ++s) {
    part.load[s] = live += change[s];
    part.bound = std::max(part.bound, live);
  }
  set_loads(part);
}

}  // namespace

Split split(const Problem& p) {
  struct Event {
    int64_t step;
    bool begins;
    uint32_t item;
  };
  Split out;
  out.unit = static_cast<int64_t>(slot_unit(p));
  std::vector<Item> items;
  std::vector<Event> events;
  items.reserve(p.buffers.size());
  events.reserve(2 * p.buffers.size());
  for (uint32_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.size == 0 || b.start >= b.end) continue;
    const uint32_t k = static_cast<uint32_t>(items.size());
    events.push_back({b.start, true, k});
    events.push_back({b.end, false, k});
    const int64_t unit = out.unit;
    items.push_back({0, 0, (static_cast<int64_t>(b.size) + unit - 1) / unit, static_cast<int64_t>(b.align) / unit,
                     b.fixed == Buffer::kFree ? Item::kFree : static_cast<int64_t>(b.fixed) / unit, i,
                     static_cast<uint64_t>(b.end) - static_cast<uint64_t>(b.start), 0});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.step != b.step ? a.step < b.step : a.begins != b.begins ? a.begins < b.begins : a.item < b.item;
  });

  // A begin after an end opens a section. If nothing is live, it also opens a part.
  uint32_t section = 0, live = 0;
  bool died = false;
  std::vector<uint32_t> part_begins;  // first section of each part
  for (const Event& e : events) {
    if (e.begins) {
      if (died) ++section;
      if (live == 0) part_begins.push_back(section);
      died = false;
      items[e.item].lo = section;
      ++live;
    } else {
      items[e.item].hi = section + 1;
      died = true;
      --live;
    }
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.lo != b.lo ? a.lo < b.lo : a.hi != b.hi ? a.hi > b.hi : a.buffer < b.buffer;
  });
  part_begins.push_back(section + 1);
  size_t next = 0;
  for (size_t k = 0; k + 1 < part_begins.size(); ++k) {
    Instance& part = out.parts.emplace_back();
    for (; next < items.size() && items[next].lo < part_begins[k + 1]; ++next) part.items.push_back(items[next]);
    finish(part, part_begins[k], part_begins[k + 1]);
  }
  return out;
}

}  // namespace rlxc::plan
