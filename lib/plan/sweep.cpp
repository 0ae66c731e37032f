#include "plan/sweep.h"

#include <algorithm>

#include "plan/block_set.h"
#include "plan/step_order.h"

namespace rlxc::plan {
namespace {

// Free ranges below `top`, indexed by offset and by size.
class Gaps {
 public:
  int64_t take(int64_t size, int64_t align) {
    int tries = 0;
    for (auto it = by_size_.lower_bound({size, 0}); it != by_size_.end();) {
      const auto [room, begin] = by_size_.at(it);
      const int64_t at = (begin + align - 1) / align * align;
      if (at + size <= begin + room) {
        by_size_.erase_at(it);
        const int64_t before = at - begin, after = begin + room - at - size;
        const auto here = by_offset_.lower_bound({begin, 0});
        if (before > 0) by_offset_.replace(here, {begin, before});
        else if (after > 0) by_offset_.replace(here, {at + size, after});
        else by_offset_.erase_at(here);
        if (before > 0 && after > 0) by_offset_.insert({at + size, after});
        for (const Range& rest : {Range{before, begin}, Range{after, at + size}})
          if (rest.first > 0) by_size_.insert(rest);
        return at;
      }
      it = ++tries == kTries ? by_size_.lower_bound({size + align, 0}) : by_size_.next(it);
    }
    const int64_t at = (top_ + align - 1) / align * align;
    if (at > top_) {
      by_offset_.insert({top_, at - top_});
      by_size_.insert({at - top_, top_});
    }
    top_ = at + size;
    return at;
  }

  void give(int64_t begin, int64_t size) {
    const auto next = by_offset_.lower_bound({begin, 0});
    const auto before = next != by_offset_.begin() ? by_offset_.prev(next) : by_offset_.end();
    const Range below = before != by_offset_.end() ? by_offset_.at(before) : Range{begin, -1},
                above = next != by_offset_.end() ? by_offset_.at(next) : Range{begin, 0};
    const bool beside_below = below.first + below.second == begin, beside_above = above.first == begin + size;
    if (beside_above) {
      by_size_.erase({above.second, above.first});
      size += above.second;
    }
    if (beside_below) {
      by_size_.erase({below.second, below.first});
      begin = below.first;
      size += below.second;
    }
    const bool ends = begin + size == top_;  // no free range lies above
    if (ends) top_ = begin;
    else by_size_.insert({size, begin});
    if (beside_above) {
      if (ends || beside_below) by_offset_.erase_at(next);
      else by_offset_.replace(next, {begin, size});
    }
    if (beside_below) {
      if (ends) by_offset_.erase_at(before);
      else by_offset_.replace(before, {begin, size});
    }
    if (!ends && !beside_below && !beside_above) by_offset_.insert({begin, size});
  }

 private:
  static constexpr int kTries = 8;
  using Range = std::pair<int64_t, int64_t>;

  BlockSet<Range> by_offset_, by_size_;  // begin and size; size and begin
  int64_t top_ = 0;
};

}  // namespace

int64_t place_by_sweep(const Instance& in, std::vector<int64_t>* offsets) {
  const uint32_t n = static_cast<uint32_t>(in.items.size());
  std::vector<int64_t> ends(n);
  for (uint32_t k = 0; k < n; ++k) ends[k] = in.items[k].hi;
  const std::vector<uint32_t> by_end = order_by_step(ends);
  offsets->assign(n, 0);
  Gaps gaps;
  int64_t height = 0;
  uint32_t dead = 0;
  for (uint32_t k = 0; k < n; ++k) {
    for (; in.items[by_end[dead]].hi <= in.items[k].lo; ++dead) gaps.give((*offsets)[by_end[dead]], in.items[by_end[dead]].size);
    const int64_t at = gaps.take(in.items[k].size, in.items[k].align);
    (*offsets)[k] = at;
    height = std::max(height, at + in.items[k].size);
  }
  return height;
}

int64_t place_by_deaths(const Instance& in, int64_t ceiling, uint64_t* work, std::vector<int64_t>* offsets) {
  struct Live {
    int64_t offset, top, death;
  };
  constexpr int64_t kNever = int64_t{1} << 40;
  std::vector<Live> live;  // by offset
  offsets->assign(in.items.size(), 0);
  int64_t height = 0;
  for (size_t k = 0; k < in.items.size(); ++k) {
    const Item& item = in.items[k];
    if (*work <= live.size()) {
      *work = 0;
      return INT64_MAX;
    }
    *work -= live.size() + 1;
    // The best gap so far: least difference of ends, then least free space left.
    int64_t at = -1, least = kNever, least_left = 0;
    size_t place = 0, kept = 0;
    Live below{0, 0, kNever};
    const auto gap = [&](const Live& above) {
      const int64_t left = above.offset - below.top - item.size;
      if (left < 0) return;
      const int64_t low = (below.top + item.align - 1) / item.align * item.align,
                    high = (above.offset - item.size) / item.align * item.align;
      for (const auto& [offset, death] : {std::pair(low, below.death), std::pair(high, above.death)}) {
        const int64_t difference = std::min(std::abs(death - item.hi), kNever - 1);
        if (high < low || difference > least || (difference == least && left >= least_left)) continue;
        at = offset;
        least = difference;
        least_left = left;
        place = kept;
      }
    };
    for (const Live& l : live) {
      if (l.death <= item.lo) continue;
      gap(l);
      live[kept++] = below = l;
    }
    gap({ceiling, ceiling, kNever});
    if (at < 0) {
      at = (below.top + item.align - 1) / item.align * item.align;
      place = kept;
    }
    live.resize(kept);
    live.insert(live.begin() + static_cast<std::ptrdiff_t>(place), {at, at + item.size, item.hi});
    (*offsets)[k] = at;
    height = std::max(height, at + item.size);
  }
  return height;
}

}  // namespace rlxc::plan
