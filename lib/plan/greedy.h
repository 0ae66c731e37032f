// Placement in a given order: each item goes into a gap between those placed before that live with it. Pisarchyk and Lee,
// "Efficient Memory Management for Deep Neural Net Inference" (arXiv 2001.03288), greedy by size, generalised to any order.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

enum class Fit : uint8_t { First, Best };  // the lowest gap that is large enough, or the tightest

// A key is sorted by falling value; ties by the item's index.
struct OrderKey {
  const char* name;
  double (*value)(const Instance&, const Item&);
};
std::span<const OrderKey> order_keys();

std::vector<uint32_t> order_by(const Instance&, const OrderKey&);

class Placer {
 public:
  explicit Placer(const Instance& instance) : instance_(instance) {}

  // Places fixed items first, then the rest in `order`. Returns the height, or `limit` as soon as it is reached. At most n^2 / 2
  // steps.
  int64_t place(std::span<const uint32_t> order, Fit fit, int64_t limit, std::vector<int64_t>* offsets);

 private:
  struct Placed {
    uint32_t lo, hi;
    int64_t offset, top;
  };
  int64_t gap(const Item&, Fit) const;

  const Instance& instance_;
  std::vector<Placed> placed_;  // by offset
};

}  // namespace rlxc::plan
