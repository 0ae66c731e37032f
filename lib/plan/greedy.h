// Placement in a given order: each item goes into a gap between those placed before that live with it. Pisarchyk and Lee,
// "Efficient Memory Management for Deep Neural Net Inference" (arXiv 2001.03288), greedy by size, generalised to any order.
//
// What is placed is kept by blocks of time, sorted by offset, at several block lengths. An item looks at the one or two blocks
// that cover its life at the shortest length that is not shorter than itself, so it sees little more than its neighbours.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

enum class Fit : uint8_t { First, Best };  // the lowest gap that is large enough, or the tightest

// Items are sorted by falling major, then minor value; ties by index.
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
  // of placed items, about 10^9 a second) is used up; `work` is reduced by what was used.
  int64_t place(std::span<const uint32_t> order, Fit fit, int64_t limit, uint64_t* work, std::vector<int64_t>* offsets);

 private:
  struct Placed {
    uint32_t lo, hi;
    int64_t offset, top;
  };
  struct Level {
    uint32_t length;  // sections in a block
    std::vector<std::vector<Placed>> blocks;
  };

  void clear();
  void put(uint32_t k, int64_t offset);
  int64_t find(const Item&, Fit);

  const Instance& instance_;
  std::vector<Level> levels_;  // from short to long blocks
  std::vector<Placed> gathered_;
  uint64_t visits_ = 0;
};

}  // namespace rlxc::plan
