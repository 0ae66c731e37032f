#include "plan/fillers.h"

#include <algorithm>

#include "plan/improve.h"

namespace rlxc::plan {
namespace {

constexpr double kMostRoom = 0.2;  // limit on the free share of the area; fillers don't help above it

// Covers the free space of each section with buffers whose times are sections. Where free space shrinks, it closes the largest
// open hole that is not larger than the loss, repeatedly, or shrinks the smallest hole.
std::vector<Buffer> fillers(const Instance& in, int64_t height) {
  std::vector<int64_t> change(in.sections() + 1);
  for (const Item& i : in.items) change[i.lo] -= i.size, change[i.hi] += i.size;
  change[0] += height;
  struct Hole {
    int64_t size;
    uint32_t from;
  };
  std::vector<Hole> open;
  std::vector<Buffer> out;
  const auto close = [&](int64_t size, uint32_t from, uint32_t to) {
    if (from < to) out.push_back({from, to, static_cast<uint64_t>(size), 1});
  };
  for (uint32_t s = 0; s < in.sections(); ++s) {
    if (change[s] > 0) open.push_back({change[s], s});
    for (int64_t ends = -change[s]; ends > 0;) {
      auto hole = open.end();
      for (auto h = open.begin(); h != open.end(); ++h)
        if (h->size <= ends && (hole == open.end() || h->size >= hole->size)) hole = h;
      if (hole == open.end()) {
        hole = std::ranges::min_element(open, {}, &Hole::size);
        close(ends, hole->from, s), hole->size -= ends, ends = 0;
      } else {
        close(hole->size, hole->from, s), ends -= hole->size;
        open.erase(hole);
      }
    }
  }
  for (const Hole& h : open) close(h.size, h.from, in.sections());
  return out;
}

}  // namespace

void place_with_fillers(const Instance& in, const SearchOptions& options, int64_t height, Effort& effort, Placement& best) {
  Problem full;
  for (const Item& i : in.items) {
    if (i.align > 1) return;
    full.buffers.push_back({i.lo, i.hi, static_cast<uint64_t>(i.size), 1});
  }
  int64_t load = 0;
  for (const Item& i : in.items) load += i.size * (i.hi - i.lo);
  if (static_cast<double>(load) < (1 - kMostRoom) * static_cast<double>(height) * in.sections()) return;
  for (const Buffer& b : fillers(in, height)) full.buffers.push_back(b);
  full.buffers.push_back({0, 0, 0, 1});  // makes the unit of offsets 1
  std::vector<int64_t> offsets(in.items.size());
  for (const Instance& part : split(full).parts) {
    Placement found;
    found.height = height + 1;
    improve(part, options, height, true, effort, found);
    if (found.offsets.empty() || found.height > height) return;
    for (size_t k = 0; k < part.items.size(); ++k)
      if (part.items[k].buffer < offsets.size()) offsets[part.items[k].buffer] = found.offsets[k];
  }
  best.height = height, best.offsets = std::move(offsets), best.method = "search with all room filled";
}

}  // namespace rlxc::plan
