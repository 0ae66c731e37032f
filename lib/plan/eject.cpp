#include "plan/eject.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "plan/mix.h"

namespace rlxc::plan {
namespace {

constexpr int64_t kWeight = 256;  // of an item of average area
constexpr int64_t kPenalty = 26;  // added when an item was placed with conflicts
constexpr int64_t kNoise = 1024;  // steps of the random factor on weights, 1 to 1.5
constexpr int kBucketBits = 8;
constexpr uint64_t kVisitsOfPlace = 3;  // work per neighbour to find an offset
constexpr int64_t kResolution = 200;    // smaller gaps than height / 200 are closed in one step

class Ejection {
 public:
  explicit Ejection(const Instance& in) : in_(in), weight_(in.items.size()), first_(in.sections() + 1) {
    uint64_t lived = 0;
    double area = 0;
    const auto area_of = [](const Item& i) { return static_cast<double>(i.size) * (i.hi - i.lo); };
    for (const Item& i : in.items) {
      lived += i.hi - i.lo;
      area += area_of(i);
    }
    const double average = area / static_cast<double>(in.items.size());
    spacing_ = std::max<uint32_t>(4, static_cast<uint32_t>(lived / (2 * in.items.size())));
    live_.resize(in.sections() / spacing_ + 1);
    for (uint32_t k = 0; k < in.items.size(); ++k) {
      const Item& i = in.items[k];
      weight_[k] = i.fixed == Item::kFree ? 1 + static_cast<int64_t>(kWeight * std::sqrt(area_of(i) / average)) : kImmovable;
      for (uint32_t c = i.lo / spacing_ + 1; c < live_.size() && c * spacing_ < i.hi; ++c) live_[c].push_back(k);
      ++first_[i.lo + 1];
    }
    for (uint32_t s = 0; s < in.sections(); ++s) first_[s + 1] += first_[s];
  }

  // Moves items that end above `height` until none does. Returns false if the work runs out first.
  bool run(int64_t height, uint64_t* work, std::vector<int64_t>& offsets) {
    unplaced_.clear();
    for (uint32_t k = 0; k < in_.items.size(); ++k)
      if (offsets[k] + in_.items[k].size > height) {
        unplaced_.push_back(k);
        offsets[k] = kNowhere;
      }
    while (!unplaced_.empty()) {
      if (*work == 0) return false;
      uint32_t& pick = unplaced_[draw(unplaced_.size())];
      const uint32_t k = pick;
      pick = unplaced_.back();
      unplaced_.pop_back();
      const Item& item = in_.items[k];
      visits_ = 0;
      gather(item, offsets);
      const int64_t at = cheapest(item, height);
      *work -= std::min(*work, visits_);
      if (at < 0) return false;
      bool conflict = false;
      for (const Neighbour& n : near_) {
        if (n.top <= at || at + item.size <= n.offset) continue;
        offsets[n.item] = kNowhere;
        unplaced_.push_back(n.item);
        conflict = true;
      }
      if (conflict) weight_[k] += kPenalty;
      offsets[k] = at;
    }
    return true;
  }

 private:
  static constexpr int64_t kNowhere = -1, kImmovable = int64_t{1} << 40;

  struct Neighbour {
    int64_t offset, top;
    uint32_t item;
  };
  struct Change {  // of the sum of conflicting weights, from the offset `at` on
    int64_t at, weight;
  };

  uint64_t draw(uint64_t n) { return (mix(seed_ += 0x9E3779B97F4A7C15u) >> 11) % n; }

  // Collects the placed items that overlap `item` in time: from the checkpoint before its first section, then those that begin
  // later.
  void gather(const Item& item, const std::vector<int64_t>& offsets) {
    near_.clear();
    const auto add = [&](uint32_t j) {
      if (offsets[j] != kNowhere && in_.items[j].hi > item.lo) near_.push_back({offsets[j], offsets[j] + in_.items[j].size, j});
    };
    const uint32_t c = item.lo / spacing_, from = first_[c * spacing_], to = first_[item.hi];
    for (uint32_t j : live_[c]) add(j);
    for (uint32_t j = from; j < to; ++j) add(j);
    visits_ += 1 + live_[c].size() + (to - from);
  }

  // Bucket sort by offset.
  void sort_changes(int64_t last) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(last))) - kBucketBits);
    std::array<uint32_t, (1 << kBucketBits) + 1> begin{};
    for (const Change& c : changes_) ++begin[static_cast<size_t>(c.at >> shift) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    sorted_.resize(changes_.size());
    for (const Change& c : changes_) sorted_[begin[static_cast<size_t>(c.at >> shift)]++] = c;
    auto from = sorted_.begin();  // `begin` has become the ends of the buckets
    for (const uint32_t end : begin) {
      const auto to = sorted_.begin() + end;
      if (to - from > 1) std::sort(from, to, [](const Change& x, const Change& y) { return x.at < y.at; });
      from = to;
    }
    changes_.swap(sorted_);
  }

  // Returns the offset with the least weight of conflicts, or kNowhere if fixed items conflict everywhere.
  int64_t cheapest(const Item& item, int64_t height) {
    const int64_t last = height - item.size;
    changes_.clear();
    changes_.push_back({0, 0});
    for (const Neighbour& n : near_) {
      changes_.push_back({std::max<int64_t>(n.offset - item.size + 1, 0), weight_[n.item]});
      if (n.top <= last) changes_.push_back({n.top, -weight_[n.item]});
    }
    visits_ += kVisitsOfPlace * near_.size();
    sort_changes(last);
    int64_t sum = 0, least = kImmovable, best = kNowhere;
    uint64_t equal = 0;
    for (size_t c = 0; c < changes_.size();) {
      const int64_t from = changes_[c].at;
      for (; c < changes_.size() && changes_[c].at == from; ++c) sum += changes_[c].weight;
      const int64_t end = c < changes_.size() ? changes_[c].at : last + 1;
      const int64_t at = (from + item.align - 1) / item.align * item.align;
      if (at >= end || sum >= kImmovable) continue;
      const int64_t noisy = sum + sum * static_cast<int64_t>(draw(kNoise)) / (2 * kNoise);
      if (noisy < least) equal = 0;
      if (noisy <= least && draw(++equal) == 0) {
        least = noisy;
        best = at;
      }
    }
    return best;
  }

  const Instance& in_;
  std::vector<int64_t> weight_;  // by item
  std::vector<uint32_t> first_;  // by section: first item that begins there or later
  uint32_t spacing_;
  std::vector<std::vector<uint32_t>> live_;  // by section / spacing: items that begin before that section and are live in it
  std::vector<uint32_t> unplaced_;
  std::vector<Neighbour> near_;
  std::vector<Change> changes_, sorted_;
  uint64_t seed_ = 1, visits_ = 0;
};

}  // namespace

void place_by_ejection(const Instance& in, int64_t enough, uint64_t* work, Placement& best) {
  Ejection ejection(in);
  std::vector<int64_t> offsets;
  for (int64_t low = enough; best.height > low && *work > 0;) {
    const int64_t gap = best.height - low;
    const bool last = gap <= std::max<int64_t>(1, enough / kResolution);
    if (last && low > enough) return;
    const int64_t goal = last ? low : low + gap / 2;
    uint64_t share = last ? *work : *work / 2;
    *work -= share;
    offsets = best.offsets;
    if (ejection.run(goal, &share, offsets)) {
      best.height = 0;
      for (size_t k = 0; k < offsets.size(); ++k) best.height = std::max(best.height, offsets[k] + in.items[k].size);
      best.offsets.swap(offsets);
      best.method = "ejection";
    } else {
      low = goal;
    }
    *work += share;
  }
}

}  // namespace rlxc::plan
