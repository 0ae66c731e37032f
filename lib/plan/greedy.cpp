#include "plan/greedy.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace rlxc::plan {
namespace {

double length(const Item& i) { return static_cast<double>(i.steps); }
double size(const Item& i) { return static_cast<double>(i.size); }

int64_t peak_load(const Instance& in, const Item& i) { return *std::max_element(in.load.begin() + i.lo, in.load.begin() + i.hi); }

constexpr OrderKey kKeys[] = {
    {"size", [](const Instance&, const Item& i) { return size(i); }},
    {"area", [](const Instance&, const Item& i) { return size(i) * length(i); }},
    {"length", [](const Instance&, const Item& i) { return length(i); }},
    {"start", [](const Instance&, const Item& i) { return -static_cast<double>(i.lo); }},
    {"end", [](const Instance&, const Item& i) { return static_cast<double>(i.hi); }},
    {"load", [](const Instance& in, const Item& i) { return static_cast<double>(peak_load(in, i)); }},
};

int64_t round_up(int64_t n, int64_t align) { return align == 1 ? n : (n + align - 1) / align * align; }

}  // namespace

std::span<const OrderKey> order_keys() { return kKeys; }

std::vector<uint32_t> order_by(const Instance& in, const OrderKey& key) {
  std::vector<double> values(in.items.size());
  for (size_t k = 0; k < values.size(); ++k) values[k] = key.value(in, in.items[k]);
  std::vector<uint32_t> order(in.items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
  return order;
}

int64_t Placer::gap(const Item& item, Fit fit) const {
  int64_t cursor = 0, best = -1, best_room = std::numeric_limits<int64_t>::max();
  for (const Placed& p : placed_) {
    if (p.lo >= item.hi || item.lo >= p.hi) continue;
    if (p.offset > cursor) {
      const int64_t at = round_up(cursor, item.align);
      const int64_t room = p.offset - at;
      if (room >= item.size && room < best_room) {
        if (fit == Fit::First || room == item.size) return at;
        best = at;
        best_room = room;
      }
    }
    cursor = std::max(cursor, p.top);
  }
  return best >= 0 ? best : round_up(cursor, item.align);
}

int64_t Placer::place(std::span<const uint32_t> order, Fit fit, int64_t limit, std::vector<int64_t>* offsets) {
  placed_.clear();
  placed_.reserve(instance_.items.size());
  offsets->assign(instance_.items.size(), 0);
  int64_t height = 0;
  auto put = [&](uint32_t k, int64_t offset) {
    const Item& item = instance_.items[k];
    (*offsets)[k] = offset;
    height = std::max(height, offset + item.size);
    const auto at =
        std::upper_bound(placed_.begin(), placed_.end(), offset, [](int64_t o, const Placed& p) { return o < p.offset; });
    placed_.insert(at, {item.lo, item.hi, offset, offset + item.size});
  };
  if (instance_.any_fixed)
    for (uint32_t k : order)
      if (instance_.items[k].fixed != Item::kFree) put(k, instance_.items[k].fixed);
  for (uint32_t k : order) {
    const Item& item = instance_.items[k];
    if (item.fixed != Item::kFree) continue;
    put(k, gap(item, fit));
    if (height >= limit) return limit;
  }
  return height;
}

}  // namespace rlxc::plan
