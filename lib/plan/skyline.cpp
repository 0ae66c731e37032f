#include "plan/skyline.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

namespace rlxc::plan {
namespace {

// Share of the distance from the lowest rest to the lowest top: items that rest below it are candidates, chosen by rank.
constexpr double kSlacks[] = {1, 0.6, 0.3, 0};
constexpr double kHurry = 0.7;  // factor on the rank of an item that ends above the goal

double length(const Item& i) { return static_cast<double>(i.steps); }
double area(const Item& i) { return static_cast<double>(i.steps) * static_cast<double>(i.size); }

struct Priority {
  const char* name;
  double levels;  // number of distinct load levels
  double (*minor)(const Item&);
};
constexpr double kEach = 1e18;
constexpr Priority kPriorities[] = {
    {"load and length", kEach, length},
    {"load and area", kEach, area},
    {"tightness and length", 16, length},
    {"tightness and area", 32, area},
};

class Skyline {
 public:
  Skyline(const Instance& in, uint64_t work) : in_(in), work_(work), rest_(in.items.size()), offset_(in.items.size()) {}

  // Places all items, low ranks first. Returns the height, or `limit` if it is reached or the work is used up.
  int64_t place(const std::vector<double>& rank, double slack, int64_t limit) {
    std::fill(rest_.begin(), rest_.end(), 0);
    open_.resize(in_.items.size());
    std::iota(open_.begin(), open_.end(), 0u);
    int64_t height = 0;
    while (!open_.empty()) {
      if (work_ < 3 * open_.size()) return work_ = 0, limit;
      work_ -= 3 * open_.size();
      const size_t at = choose(rank, slack);
      const uint32_t k = open_[at];
      open_[at] = open_.back();
      open_.pop_back();
      const Item& item = in_.items[k];
      offset_[k] = rest_[k];
      const int64_t top = rest_[k] + item.size;
      height = std::max(height, top);
      if (height >= limit) return limit;
      for (uint32_t j : open_) {
        const Item& other = in_.items[j];
        if (other.lo < item.hi && item.lo < other.hi && rest_[j] < top)
          rest_[j] = (top + other.align - 1) / other.align * other.align;
      }
    }
    return height;
  }

  const std::vector<int64_t>& offsets() const { return offset_; }
  bool tired() const { return work_ == 0; }

 private:
  size_t choose(const std::vector<double>& rank, double slack) const {
    int64_t lowest = std::numeric_limits<int64_t>::max(), lowest_top = lowest;
    for (uint32_t j : open_) {
      lowest = std::min(lowest, rest_[j]);
      lowest_top = std::min(lowest_top, rest_[j] + in_.items[j].size);
    }
    const int64_t most =
        std::min(lowest_top - 1, lowest + static_cast<int64_t>(slack * static_cast<double>(lowest_top - lowest)));
    size_t best = open_.size();
    for (size_t k = 0; k < open_.size(); ++k)
      if (rest_[open_[k]] <= most && (best == open_.size() || rank[open_[k]] < rank[open_[best]])) best = k;
    return best;
  }

  const Instance& in_;
  uint64_t work_;
  std::vector<int64_t> rest_, offset_;  // by item
  std::vector<uint32_t> open_;
};

std::vector<double> ranks(const Instance& in, const Priority& p) {
  std::vector<std::pair<double, double>> keys;
  for (const Item& i : in.items) {
    const double load = static_cast<double>(i.load) / static_cast<double>(in.bound);
    keys.emplace_back(p.levels == kEach ? load : std::floor(load * p.levels), p.minor(i));
  }
  std::vector<uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] > keys[b]; });
  std::vector<double> rank(order.size());
  for (size_t k = 0; k < order.size(); ++k) rank[order[k]] = static_cast<double>(k);
  return rank;
}

}  // namespace

void place_on_skyline(const Instance& in, int64_t enough, uint32_t rounds, uint64_t work, Placement& best) {
  Skyline skyline(in, work);
  std::vector<double> rank;
  int64_t lowest = std::numeric_limits<int64_t>::max();  // over all attempts
  size_t slack = 0;
  const auto attempt = [&](const std::vector<double>& by, size_t s, const char* name) {
    const int64_t height = skyline.place(by, kSlacks[s], INT64_MAX);
    if (height < best.height)
      best.height = height, best.offsets = skyline.offsets(), best.method = std::string("skyline by ") + name;
    if (height < lowest) lowest = height, rank = by, slack = s;
    return best.height <= enough || skyline.tired();
  };
  for (size_t s = 0; s < std::size(kSlacks); ++s)
    for (const Priority& p : kPriorities)
      if (attempt(ranks(in, p), s, p.name)) return;
  uint32_t last_gain = 0;
  for (uint32_t round = 0; round < last_gain + rounds; ++round) {
    const int64_t before = lowest;
    std::vector<double> next = rank;
    if (attempt(next, (slack + round) % std::size(kSlacks), "repaired order")) return;
    for (size_t k = 0; k < next.size(); ++k)
      if (skyline.offsets()[k] + in.items[k].size > enough) next[k] = next[k] * kHurry - 1;
    rank.swap(next);
    if (lowest < before) last_gain = round;
  }
}

}  // namespace rlxc::plan
