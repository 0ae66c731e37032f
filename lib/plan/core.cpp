#include "plan/core.h"

#include <algorithm>

#include "plan/eject.h"
#include "plan/improve.h"
#include "plan/portfolio.h"

namespace rlxc::plan {
namespace {

constexpr double kTightness[] = {0.99, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7};  // shares of the bound: least load of core items
constexpr size_t kCoreItems = 1500;
constexpr int64_t kEasyItems = 256;  // cores up to this size are rarely hard
constexpr uint64_t kSearchWorkPerItem = 50'000;
constexpr uint64_t kGreedyWork = 1'000'000, kGreedyWorkPerItem = 200;

// Fixes the core items of `part` at the offsets of the search. Returns false if it finds no placement within `enough`.
bool fix_core(Instance& part, int64_t tight, const SearchOptions& options, int64_t enough, Effort& effort) {
  Problem core;
  std::vector<uint32_t> items;
  for (uint32_t k = 0; k < part.items.size(); ++k) {
    const Item& i = part.items[k];
    if (i.load < tight) continue;
    items.push_back(k);
    core.buffers.push_back({i.lo, i.hi, static_cast<uint64_t>(i.size), static_cast<uint64_t>(i.align)});
  }
  core.buffers.push_back({0, 0, 0, 1});  // makes the unit of offsets 1
  for (const Instance& piece : split(core).parts) {
    Placement best;
    best.height = enough + 1;
    const uint64_t share = std::min(effort.work, kSearchWorkPerItem * piece.items.size());
    Effort own{share, 0};
    improve(piece, options, enough, true, own, best);
    effort.work -= share - own.work;
    effort.nodes += own.nodes;
    if (best.height > enough) return false;
    for (size_t k = 0; k < piece.items.size(); ++k) part.items[items[piece.items[k].buffer]].fixed = best.offsets[k];
  }
  part.any_fixed = true;
  return true;
}

}  // namespace

void place_core(const Instance& part, const SearchOptions& options, int64_t enough, uint64_t* work, Effort& effort,
                Placement& best) {
  int64_t core = 0, core_items = 0;
  for (double share : kTightness) {
    const int64_t tight = static_cast<int64_t>(share * static_cast<double>(part.bound));
    const int64_t items = std::ranges::count_if(part.items, [&](const Item& i) { return i.load >= tight; });
    if (items > (core_items == 0 ? static_cast<int64_t>(std::min(kCoreItems, part.items.size() - 1)) : kEasyItems)) break;
    core = tight;
    core_items = items;
  }
  if (core_items == 0) return;
  Instance with_core = part;
  if (!fix_core(with_core, core, options, enough, effort)) return;
  Placement around;
  uint64_t share = std::min(*work, kGreedyWork + kGreedyWorkPerItem * part.items.size());
  *work -= share;
  place_greedily(with_core, enough, {.orders = 1, .best_fit = false}, &share, around);
  if (!around.offsets.empty()) place_by_ejection(with_core, enough, &share, around);
  *work += share;
  if (around.height >= best.height) return;
  best.height = around.height;
  best.offsets = around.offsets;
  best.method = "core search, rest " + around.method;
}

}  // namespace rlxc::plan
