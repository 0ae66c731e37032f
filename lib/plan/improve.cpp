#include "plan/improve.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace rlxc::plan {
namespace {

constexpr int64_t kSteps = 8;

// Static orders by descending keys: highest load over the item, area, length; in sections or in steps.
struct SearchOrder {
  const char* name;
  std::array<char, 3> keys;
  Guide guide = Guide::Order;
};

constexpr SearchOrder kOrders[] = {
    {"load, length, area", {'T', 'W', 'A'}},
    {"candidates, load, length", {'T', 'W', 'A'}, Guide::FewestCandidates},
    {"load, area, length", {'T', 'A', 'W'}},
    {"length, area, load", {'W', 'A', 'T'}},
    {"candidates, area, load", {'A', 'T', 'W'}, Guide::FewestCandidates},
    {"sections, area, load", {'S', 'B', 'T'}},
    {"load, size, length", {'T', 'H', 'W'}},
    {"candidates, length, area", {'W', 'A', 'T'}, Guide::FewestCandidates},
};

double value(const Item& i, char key) {
  const double size = static_cast<double>(i.size), steps = static_cast<double>(i.steps), sections = i.hi - i.lo;
  switch (key) {
    case 'T': return static_cast<double>(i.load);
    case 'A': return size * steps;
    case 'B': return size * sections;
    case 'H': return size;
    case 'W': return steps;
    default: return sections;
  }
}

std::vector<uint32_t> sorted(const Instance& in, const SearchOrder& order) {
  std::vector<std::array<double, 3>> keys(in.items.size());
  for (size_t k = 0; k < keys.size(); ++k)
    for (int d = 0; d < 3; ++d) keys[k][d] = value(in.items[k], order.keys[d]);
  std::vector<uint32_t> out(in.items.size());
  std::iota(out.begin(), out.end(), 0u);
  std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) { return keys[a] > keys[b]; });
  return out;
}

}  // namespace

void improve(const Instance& in, const SearchOptions& options, int64_t enough, bool goal_only, Effort& effort, Placement& best) {
  if (best.height <= std::max(enough, best.proved) || effort.work == 0) return;
  Search search(in, options);
  std::vector<std::vector<uint32_t>> orders;
  for (const SearchOrder& order : kOrders) orders.push_back(sorted(in, order));

  auto done = [&] { return best.height <= std::max(enough, best.proved) || search.work() >= effort.work; };

  // Tries one height with every order.
  auto attempt = [&](int64_t height, uint64_t nodes) {
    std::vector<int64_t> offsets;
    for (size_t k = 0; k < orders.size() && search.work() < effort.work; ++k) {
      const Verdict verdict = search.run(height, orders[k], kOrders[k].guide, {nodes, effort.work - search.work()}, &offsets);
      if (verdict == Verdict::OutOfBudget) continue;
      if (verdict == Verdict::Infeasible) {
        best.proved = height + 1;
        return false;
      }
      best.height = 0;
      for (size_t i = 0; i < offsets.size(); ++i) best.height = std::max(best.height, offsets[i] + in.items[i].size);
      best.offsets.swap(offsets);
      best.method = std::string("search by ") + kOrders[k].name;
      return true;
    }
    return false;
  };

  // A descent without backtracking takes one node per item.
  const uint64_t dive = in.items.size() + in.items.size() / 4 + 16;
  for (uint64_t nodes = dive; !done(); nodes *= 2) {
    const int64_t goal = std::max(enough, best.proved);
    if (attempt(goal, nodes)) break;
    if (goal_only && nodes > dive) continue;
    // Lowers the height by a fraction of the gap while that succeeds, then by the least step. Bisection would spend most of the
    // work on heights as hard as the goal.
    const int64_t least = nodes == dive ? best.height / 1000 + 1 : 1;
    for (bool large = true; !done();) {
      const int64_t step = large ? std::max(least, (best.height - goal) / kSteps) : least;
      if (best.height - step <= goal) break;
      if (attempt(best.height - step, nodes)) continue;
      if (step == least) break;
      large = false;
    }
  }
  effort.work -= std::min(effort.work, search.work());
  effort.nodes += search.nodes();
}

}  // namespace rlxc::plan
