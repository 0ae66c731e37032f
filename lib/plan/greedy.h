// Placement in a given order: each item goes into a gap between placed items that overlap it in time. Generalises greedy by size
// (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", arXiv 2001.03288) to any order.
// Placed items are stored by blocks of time, sorted by offset, at several block lengths. An item scans the one or two blocks that
// cover it at the shortest length not below its own, so it visits few items besides its neighbours.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

enum class Fit : uint8_t { First, Best };  // lowest gap that is large enough, or tightest gap

// Sort key: descending major, then minor value; ties by index.
struct OrderKey {
  const char* name;
  double (*major)(const Instance&, const Item&);
  double (*minor)(const Instance&, const Item&);
};
std::span<const OrderKey> order_keys();

std::vector<uint32_t> order_by(const Instance&, const OrderKey&);

class Placer {
 public:
  explicit Placer(const Instance&);

  // Places fixed items first, then the rest in `order`. Returns the height, or `limit` as soon as it is reached or `work` (visits
  // of placed items, about 10^9 per second) is used up. Reduces `work` by the visits.
  int64_t place(std::span<const uint32_t> order, Fit fit, int64_t limit, uint64_t* work, std::vector<int64_t>* offsets);

 private:
  struct Placed {
    uint32_t lo, hi;
    int64_t offset, top;
  };
  struct Level {
    uint32_t length;  // sections per block
    std::vector<std::vector<Placed>> blocks;
  };

  void clear();
  void put(uint32_t k, int64_t offset);
  int64_t find(const Item&, Fit);

  const Instance& instance_;
  std::vector<Level> levels_;  // ascending block length
  std::vector<Placed> gathered_;
  uint64_t visits_ = 0;
};

}  // namespace rlxc::plan
