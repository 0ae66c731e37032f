#include "plan/instance.h"

#include <algorithm>

#include "plan/step_order.h"

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
  Split out;
  out.unit = static_cast<int64_t>(slot_unit(p));
  std::vector<uint32_t> lives;  // buffers of some size and live range
  std::vector<int64_t> starts, ends;
  for (std::vector<int64_t>* v : {&starts, &ends}) v->reserve(p.buffers.size());
  for (uint32_t i = 0; i < p.buffers.size(); ++i) {
    const Buffer& b = p.buffers[i];
    if (b.size == 0 || b.start >= b.end) continue;
    lives.push_back(i);
    starts.push_back(b.start);
    ends.push_back(b.end);
  }
  const std::vector<uint32_t> by_start = order_by_step(starts), by_end = order_by_step(ends);

  // A begin after an end opens a section. If nothing is live, it also opens a part.
  struct Begin {
    size_t item;
    uint32_t section;
  };
  std::vector<Begin> parts;
  std::vector<uint32_t> lo(lives.size()), hi(lives.size());
  uint32_t section = 0;
  size_t ended = 0;
  for (size_t begun = 0; begun < by_start.size(); ++begun) {
    const size_t before = ended;
    for (; ends[by_end[ended]] <= starts[by_start[begun]]; ++ended) hi[by_end[ended]] = section + 1;
    if (ended > before) ++section;
    if (ended == begun) parts.push_back({begun, section});
    lo[by_start[begun]] = section;
  }
  for (; ended < by_end.size(); ++ended) hi[by_end[ended]] = section + 1;
  parts.push_back({lives.size(), section + 1});

  for (size_t k = 0; k + 1 < parts.size(); ++k) {
    Instance& part = out.parts.emplace_back();
    part.items.reserve(parts[k + 1].item - parts[k].item);
    for (size_t at = parts[k].item; at < parts[k + 1].item; ++at) {
      const uint32_t live = by_start[at];
      const Buffer& b = p.buffers[lives[live]];
      part.items.push_back({lo[live], hi[live], (static_cast<int64_t>(b.size) + out.unit - 1) / out.unit,
                            static_cast<int64_t>(b.align) / out.unit,
                            b.fixed == Buffer::kFree ? Item::kFree : static_cast<int64_t>(b.fixed) / out.unit, lives[live],
                            static_cast<uint64_t>(b.end) - static_cast<uint64_t>(b.start), 0});
    }
    for (auto first = part.items.begin(); first != part.items.end();) {
      const auto last = std::find_if(first, part.items.end(), [&](const Item& i) { return i.lo != first->lo; });
      std::sort(first, last, [](const Item& a, const Item& b) { return a.hi != b.hi ? a.hi > b.hi : a.buffer < b.buffer; });
      first = last;
    }
    finish(part, parts[k].section, parts[k + 1].section);
  }
  return out;
}

}  // namespace rlxc::plan
