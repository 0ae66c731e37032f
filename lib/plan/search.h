// Exact search for a placement below a given height: depth-first over canonical placements (Moffitt, "MiniMalloc: A Lightweight
// Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023). There no item can move down, so items are placed in
// order of offset, each at its rest, the top of the skyline below it. An item refused at its rest (its subtree failed, or the
// path has passed the offset) is *deferred*: it can be placed only after another item has raised its rest.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

struct SearchOptions {
  bool dominance = true;      // Never place an item at or above the top that another item could reach now: that one would drop.
  bool deferral = true;       // A deferred item rests at least on the lowest top of the open items that overlap it in time.
  bool staircase = true;      // In each section, the items from any offset upwards must fit below the height.
  bool twins = true;          // Among items of equal live range, size and alignment, the first in order is placed first.
  bool memo = true;           // A set of open items with the same least offsets is refuted once.
  bool tight = true;          // In a section without free space, the next item is one that fills it.
  bool decomposition = true;  // If no open item crosses a point in time, both sides are solved separately.
};

struct SearchBudget {
  uint64_t nodes = 0;
  uint64_t work = 0;  // visits of items and sections, about 10^9 per second
};

// Chooses the section without free space to fill next. Order: one with a single candidate, or one where the first item in order
// is a candidate; suits structured instances. FewestCandidates: suits instances without any free space.
enum class Guide : uint8_t { Order, FewestCandidates };

enum class Verdict : uint8_t { Found, Infeasible, OutOfBudget };

class Search {
 public:
  // The instance must have no fixed items and must outlive the search. Recursion depth is the number of items.
  Search(const Instance&, const SearchOptions&);

  // Searches a placement of at most `height`. Among items at equal offset, those earlier in `order` are tried first.
  Verdict run(int64_t height, std::span<const uint32_t> order, Guide, const SearchBudget&, std::vector<int64_t>* offsets);

  uint64_t nodes() const { return nodes_; }  // over all runs
  uint64_t work() const { return work_; }

 private:
  struct Candidate {
    int64_t offset;
    uint32_t rank, item;
  };
  struct Range {
    uint32_t begin, end;  // in open_
  };
  struct Undo {
    uint32_t item;
    bool refusal;
    int64_t old;
  };

  Verdict branch(Range open, int64_t last);
  Verdict place(Range open, const Candidate&, int64_t last);
  bool bound(Range open, int64_t last, uint64_t* key);
  bool lift_deferred(Range open, int64_t last);
  bool climb(Range open);
  bool narrow(Range open, int64_t last, size_t first);
  bool deferred(uint32_t j, int64_t last) const { return least_[j] < last || refused_[j] == least_[j]; }
  void find_twins(std::span<const uint32_t> order);
  void rewind(size_t mark);

  const Instance& instance_;
  const SearchOptions options_;
  int64_t height_ = 0;
  uint64_t nodes_ = 0, work_ = 0;
  SearchBudget stop_;
  Guide guide_ = Guide::Order;

  std::vector<uint32_t> rank_, twin_;            // by item; twin: the equal item before it in order
  std::vector<uint32_t> lo_, hi_;                // by item
  std::vector<int64_t> size_, align_;            // by item
  std::vector<int64_t> least_;                   // by item: its rest on the skyline
  std::vector<int64_t> refused_;                 // by item: the rest at which it was refused
  std::vector<int64_t> offset_;                  // by item: its offset in the placement
  std::vector<int64_t> effective_;               // by item: lower bound of the offset it can still get
  std::vector<uint8_t> placed_;                  // by item
  std::vector<int64_t> lowest_, second_, load_;  // by section: two lowest tops, or lowest rests; sum of sizes
  std::vector<int64_t> tops_;                    // by section: the lowest top
  std::vector<uint32_t> fillers_;                // by section: candidates that leave no gap
  std::vector<uint32_t> open_;                   // lists of open items by lo, concatenated
  std::vector<Candidate> candidates_;            // of all nodes on the path
  std::vector<Undo> undo_;
  std::vector<std::pair<int64_t, uint32_t>> falling_;
  std::vector<uint64_t> memo_;  // keys of refuted nodes, indexed by their upper bits
  int memo_bits_ = 0;
};

}  // namespace rlxc::plan
