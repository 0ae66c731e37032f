#include "plan/windows.h"

#include <algorithm>

#include "plan/portfolio.h"

namespace rlxc::plan {
namespace {

constexpr uint32_t kMargins[] = {8, 32, 128, 512};  // sections before and after the item
constexpr size_t kWindowItems = 3000;
constexpr uint32_t kRepairRounds = 4;
constexpr uint64_t kWorkPerItem = 2000;

class Windows {
 public:
  Windows(const Instance& in, int64_t enough, uint64_t* work, Placement& best)
      : in_(in), enough_(enough), work_(*work), best_(best) {
    uint64_t lived = 0;
    for (const Item& i : in.items) lived += i.hi - i.lo;
    spacing_ = std::max<uint32_t>(16, static_cast<uint32_t>(lived / (2 * in.items.size())));
    live_.resize(in.sections() / spacing_ + 1);
    for (uint32_t k = 0; k < in.items.size(); ++k)
      for (uint32_t c = in.items[k].lo / spacing_ + 1; c < live_.size() && c * spacing_ < in.items[k].hi; ++c)
        live_[c].push_back(k);
  }

  void run() {
    std::vector<uint32_t> stuck;
    for (uint32_t k = 0; k < in_.items.size(); ++k)
      if (top(k) > enough_) stuck.push_back(k);
    std::stable_sort(stuck.begin(), stuck.end(), [&](uint32_t a, uint32_t b) { return top(a) > top(b); });
    // What stays above `enough` bounds what it pays to lower.
    int64_t reached = enough_;
    for (uint32_t k : stuck) {
      for (uint32_t margin : kMargins) {
        if (top(k) <= reached || work_ == 0 || !gather(k, margin)) break;
        if (!place_below(reached)) place_below(reached + (top(k) - reached) / 2);
      }
      reached = std::max(reached, top(k));
    }
    int64_t height = 0;
    for (uint32_t k = 0; k < in_.items.size(); ++k) height = std::max(height, top(k));
    if (height < best_.height) best_.method += ", windows";
    best_.height = height;
  }

 private:
  int64_t top(uint32_t k) const { return best_.offsets[k] + in_.items[k].size; }

  // The items in the window around one; false if they are too many.
  bool gather(uint32_t k, uint32_t margin) {
    from_ = in_.items[k].lo - std::min(margin, in_.items[k].lo);
    to_ = std::min(in_.items[k].hi + margin, in_.sections());
    items_.clear();
    const uint32_t c = from_ / spacing_;
    for (uint32_t j : live_[c])
      if (in_.items[j].hi > from_) items_.push_back(j);
    auto by_lo = [](const Item& i, uint32_t section) { return i.lo < section; };
    const auto first = std::lower_bound(in_.items.begin(), in_.items.end(), c * spacing_, by_lo);
    for (auto i = first; i != in_.items.end() && i->lo < to_ && items_.size() <= kWindowItems; ++i)
      if (i->hi > from_) items_.push_back(static_cast<uint32_t>(i - in_.items.begin()));
    return items_.size() <= kWindowItems;
  }

  // Places what lives within the window at heights up to `limit`, or leaves it as it is.
  bool place_below(int64_t limit) {
    Problem window;
    for (uint32_t j : items_) {
      const Item& i = in_.items[j];
      const bool crosses = i.lo < from_ || i.hi > to_ || i.fixed != Item::kFree;
      const int64_t size = crosses ? std::min(i.size, limit - best_.offsets[j]) : i.size;
      window.buffers.push_back({std::max(i.lo, from_), std::min(i.hi, to_), static_cast<uint64_t>(std::max<int64_t>(size, 0)),
                                static_cast<uint64_t>(i.align),
                                crosses ? static_cast<uint64_t>(best_.offsets[j]) : Buffer::kFree});
    }
    window.buffers.push_back({0, 0, 0, 1});  // keeps the unit of offsets at 1
    bool all = true;
    for (const Instance& part : split(window).parts) {
      Placement found;
      found.height = limit + 1;
      uint64_t share = std::min(work_, kWorkPerItem * part.items.size());
      work_ -= share;
      place_greedily(part, limit, {.repairs = kRepairRounds}, &share, found);
      work_ += share;
      for (size_t i = 0; i < found.offsets.size(); ++i) best_.offsets[items_[part.items[i].buffer]] = found.offsets[i];
      all &= !found.offsets.empty();
    }
    return all;
  }

  const Instance& in_;
  const int64_t enough_;
  uint64_t& work_;
  Placement& best_;
  uint32_t spacing_, from_ = 0, to_ = 0;
  std::vector<std::vector<uint32_t>> live_;  // by section / spacing: items born before that section and live in it
  std::vector<uint32_t> items_;              // of the window
};

}  // namespace

void repair_windows(const Instance& in, int64_t enough, uint64_t* work, Placement& best) {
  if (best.height > enough) Windows(in, enough, work, best).run();
}

}  // namespace rlxc::plan
