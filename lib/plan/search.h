// Exact search for a placement below a given height: depth-first over canonical placements, after Moffitt, "MiniMalloc: A
// Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
//
// Pushing every item down until it rests on another or on the ground turns any placement into one where items can be placed
// in the order of their offsets, each on top of the skyline of those before. So a node picks the next item, and offsets never
// fall along a path. An item that was refused at its present rest (its subtree failed, or the path has moved on to higher
// offsets) is *deferred*: it can only stay in the game if some other item gets below it first.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/instance.h"

namespace rlxc::plan {

struct SearchOptions {
  bool dominance = true;      // Never place an item at or above the top that another one could reach now: that one would drop.
  bool deferral = true;       // A deferred item sits at least on the lowest top of the open items that live with it.
  bool staircase = true;      // In each section, items from any offset upwards must fit between it and the ceiling.
  bool twins = true;          // Of items with equal life, size and alignment, the first in order is placed first.
  bool memo = true;           // A set of open items with the same least offsets is refuted once.
  bool tight = true;          // Where a section can waste nothing, the next item is one of those that fill it.
  bool decomposition = true;  // Once no open item crosses a point in time, both sides are solved apart.
};

struct SearchBudget {
  uint64_t nodes = 0;
  uint64_t work = 0;  // item visits and section visits, about 10^9 a second
};

// Which section that can waste nothing is filled next: one with a single candidate; else, where the first item in order has one,
// that; or the one with the fewest candidates. The first suits instances with some structure, the second those that fill a box.
enum class Guide : uint8_t { Order, FewestCandidates };

enum class Verdict : uint8_t { Found, Infeasible, OutOfBudget };

class Search {
 public:
  // The instance must have no fixed items and must outlive the search. Recursion goes as deep as there are items.
  Search(const Instance&, const SearchOptions&);

  // Looks for a placement of at most `height`. Among items at the same offset, those earlier in `order` are tried first.
  Verdict run(int64_t height, std::span<const uint32_t> order, Guide, const SearchBudget&, std::vector<int64_t>* offsets);

  uint64_t nodes() const { return nodes_; }  // of all runs
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
  std::vector<int64_t> least_;                   // by item: where it rests on the skyline
  std::vector<int64_t> refused_;                 // by item: the rest at which it was refused
  std::vector<int64_t> offset_;                  // by item: where it was placed
  std::vector<int64_t> effective_;               // by item: lower bound of the offset it can still get
  std::vector<uint8_t> placed_;                  // by item
  std::vector<int64_t> lowest_, second_, load_;  // by section: two lowest tops, or lowest rests; sum of sizes
  std::vector<int64_t> tops_;                    // by section: the lowest top
  std::vector<uint32_t> fillers_;                // by section: candidates that would leave no gap
  std::vector<uint32_t> open_;                   // lists of open items by lo, one after another
  std::vector<Candidate> candidates_;            // of all nodes on the path
  std::vector<Undo> undo_;
  std::vector<std::pair<int64_t, uint32_t>> falling_;
  std::vector<uint64_t> memo_;  // keys of refuted nodes, by their upper bits
  int memo_bits_ = 0;
};

}  // namespace rlxc::plan
