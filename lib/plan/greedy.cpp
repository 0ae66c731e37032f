#include "plan/greedy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rlxc::plan {
namespace {

double size(const Instance&, const Item& i) { return static_cast<double>(i.size); }
double length(const Instance&, const Item& i) { return static_cast<double>(i.steps); }
double area(const Instance&, const Item& i) { return static_cast<double>(i.size) * static_cast<double>(i.steps); }
double start(const Instance&, const Item& i) { return -static_cast<double>(i.lo); }
double end(const Instance&, const Item& i) { return static_cast<double>(i.hi); }
double load(const Instance& in, const Item& i) { return static_cast<double>(i.load) / static_cast<double>(in.bound); }
double tightness(const Instance& in, const Item& i) { return std::floor(load(in, i) * 16); }

constexpr OrderKey kKeys[] = {
    {"size", size, area},     {"tightness and size", tightness, size}, {"load", load, size}, {"area", area, size},
    {"length", length, size}, {"tightness and area", tightness, area}, {"end", end, size},   {"start", start, size},
};

}  // namespace

std::span<const OrderKey> order_keys() { return kKeys; }

std::vector<uint32_t> order_by(const Instance& in, const OrderKey& key) {
  struct Keyed {
    double major, minor;
    uint32_t item;
  };
  std::vector<Keyed> keyed(in.items.size());
  for (uint32_t k = 0; k < keyed.size(); ++k) keyed[k] = {key.major(in, in.items[k]), key.minor(in, in.items[k]), k};
  std::sort(keyed.begin(), keyed.end(), [](const Keyed& a, const Keyed& b) {
    return a.major != b.major ? a.major > b.major : a.minor != b.minor ? a.minor > b.minor : a.item < b.item;
  });
  std::vector<uint32_t> order;
  order.reserve(keyed.size());
  for (const Keyed& k : keyed) order.push_back(k.item);
  return order;
}

Placer::Placer(const Instance& in) : instance_(in) {
  constexpr uint32_t kShortest = 32, kBlocks = 64, kGrowth = 4;
  uint64_t lived = 0;
  for (const Item& i : in.items) lived += i.hi - i.lo;
  const uint32_t sections = in.sections();
  // With blocks as long as the mean number of live items, an item visits about twice its neighbours.
  uint32_t length = std::max<uint32_t>(kShortest, static_cast<uint32_t>(lived / sections));
  for (;; length *= kGrowth) {
    levels_.push_back({length, std::vector<std::vector<Placed>>((sections + length - 1) / length)});
    const auto longer = std::count_if(in.items.begin(), in.items.end(), [&](const Item& i) { return i.hi - i.lo > length; });
    if (sections / length < kBlocks || static_cast<uint64_t>(longer) * 64 < in.items.size()) break;
  }
}

void Placer::clear() {
  for (Level& level : levels_)
    for (auto& block : level.blocks) block.clear();
}

void Placer::put(uint32_t k, int64_t offset) {
  const Item& item = instance_.items[k];
  for (Level& level : levels_)
    for (uint32_t b = item.lo / level.length; b <= (item.hi - 1) / level.length; ++b) {
      auto& block = level.blocks[b];
      const auto at =
          std::upper_bound(block.begin(), block.end(), offset, [](int64_t o, const Placed& p) { return o < p.offset; });
      visits_ += 8 + (block.end() - at) / 8;
      block.insert(at, {item.lo, item.hi, offset, offset + item.size});
    }
}

int64_t Placer::find(const Item& item, Fit fit) {
  int64_t cursor = 0, best = -1, best_room = std::numeric_limits<int64_t>::max();
  // Returns true if `best` is final.
  auto visit = [&](const Placed& p) {
    if (p.lo >= item.hi || item.lo >= p.hi) return false;
    if (p.offset > cursor) {
      const int64_t at = round_up(cursor, item.align);
      const int64_t room = p.offset - at;
      if (room >= item.size && room < best_room) {
        best = at;
        best_room = room;
        if (fit == Fit::First || room == item.size) return true;
      }
    }
    cursor = std::max(cursor, p.top);
    return false;
  };
  const Level* level = &levels_.front();
  while (level != &levels_.back() && level->length < item.hi - item.lo) ++level;
  const uint32_t first = item.lo / level->length, last = (item.hi - 1) / level->length;
  if (last - first > 1) {
    gathered_.clear();
    for (uint32_t b = first; b <= last; ++b) {
      visits_ += level->blocks[b].size() * 8;
      for (const Placed& p : level->blocks[b])
        if (p.lo < item.hi && item.lo < p.hi && p.lo / level->length == b) gathered_.push_back(p);
    }
    for (const Placed& p : level->blocks[first])
      if (p.lo / level->length < first && item.lo < p.hi) gathered_.push_back(p);
    std::sort(gathered_.begin(), gathered_.end(), [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
    for (const Placed& p : gathered_)
      if (visit(p)) return best;
  } else {
    const auto &a = level->blocks[first], &b = level->blocks[last];
    size_t i = 0, j = first == last ? b.size() : 0;
    while (i < a.size() || j < b.size()) {
      const bool left = j == b.size() || (i < a.size() && a[i].offset <= b[j].offset);
      ++visits_;
      if (visit(left ? a[i++] : b[j++])) return best;
    }
  }
  return best >= 0 ? best : round_up(cursor, item.align);
}

int64_t Placer::place(std::span<const uint32_t> order, Fit fit, int64_t limit, uint64_t* work, std::vector<int64_t>* offsets) {
  clear();
  offsets->assign(instance_.items.size(), 0);
  int64_t height = 0;
  visits_ = 0;
  auto put_at = [&](uint32_t k, int64_t offset) {
    (*offsets)[k] = offset;
    height = std::max(height, offset + instance_.items[k].size);
    put(k, offset);
  };
  if (instance_.any_fixed)
    for (uint32_t k : order)
      if (instance_.items[k].fixed != Item::kFree) put_at(k, instance_.items[k].fixed);
  for (uint32_t k : order) {
    const Item& item = instance_.items[k];
    if (item.fixed != Item::kFree) continue;
    put_at(k, find(item, fit));
    if (height >= limit || visits_ > *work) {
      height = limit;
      break;
    }
  }
  *work -= std::min(*work, visits_);
  return height;
}

}  // namespace rlxc::plan
