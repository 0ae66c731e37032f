#include "plan/solve.h"

#include <algorithm>
#include <numeric>

#include "plan/core.h"
#include "plan/eject.h"
#include "plan/fillers.h"
#include "plan/improve.h"
#include "plan/instance.h"
#include "plan/portfolio.h"
#include "plan/skyline.h"
#include "plan/sweep.h"
#include "support/diagnostics.h"

namespace rlxc::plan {
namespace {

constexpr size_t kCoreFrom = 400;  // smaller parts are searched whole

constexpr uint64_t kShareOfFillers = 64;         // divisor of the search work
constexpr double kCeilings[] = {1.02, 1, 1.04};  // shares of the bound
constexpr double kSmallGap = 1.01;               // gaps up to 1 % end the attempts
constexpr uint64_t kVisitsOfSweep = 5;           // visits that cost as much as one in greedy orders

void take(int64_t height, std::vector<int64_t>& offsets, const char* method, Placement& best) {
  if (height >= best.height) return;
  best.height = height;
  best.offsets.swap(offsets);
  best.method = method;
}

// place_by_deaths while work is left.
void place_beside_deaths(const Instance& part, int64_t enough, uint64_t* work, Placement& best) {
  std::vector<int64_t> offsets;
  uint64_t visits = *work * kVisitsOfSweep;
  const double small = kSmallGap * static_cast<double>(enough);
  for (double ceiling : kCeilings)
    if (static_cast<double>(best.height) > small && visits > 0)
      take(place_by_deaths(part, static_cast<int64_t>(ceiling * static_cast<double>(part.bound)), &visits, &offsets), offsets,
           "beside like deaths", best);
  *work = visits / kVisitsOfSweep;
}

void eject_large(const Instance& part, int64_t enough, const SolveOptions& options, Placement& best) {
  uint64_t work = std::min(options.ejection_work_per_item * part.items.size(), options.ejection_work_large);
  if (options.ejection) place_by_ejection(part, enough, &work, best);
}

// Solves a part that is too large to search. The first solution is the best fit in time order, O(n log n). Ejection moves items
// that are too high. If that misses the goal, and the part has at most `exact_items`, core search places some items and a greedy
// order the rest. Ejection follows again. If too many items are live at once for a greedy order, each is placed beside items that
// die at a similar time.
void solve_large(const Instance& part, int64_t enough, const SolveOptions& options, Effort& effort, Placement& best) {
  std::vector<int64_t> offsets;
  take(place_by_sweep(part, &offsets), offsets, "best fit in time order", best);
  Placement ejected = best;
  eject_large(part, enough, options, ejected);
  if (ejected.height <= enough || part.items.size() > options.exact_items) {
    best = std::move(ejected);
    return;
  }
  const uint64_t n = part.items.size();
  uint64_t work = std::min(options.greedy_work + options.greedy_work_per_item * n, options.greedy_work_large), lived = 0;
  for (const Item& i : part.items) lived += i.hi - i.lo;
  Placement other;
  if (lived / part.sections() * n <= work) {
    if (options.core && options.search) place_core(part, options.pruning, enough, &work, effort, other);
    if (options.greedy && other.offsets.empty()) place_greedily(part, enough, {.orders = 1, .best_fit = false}, &work, other);
  }
  if (other.offsets.empty()) place_beside_deaths(part, enough, &work, best);
  else best = std::move(other);
  eject_large(part, enough, options, best);
  if (ejected.height < best.height) best = std::move(ejected);
}

Placement solve_part(const Instance& part, int64_t enough, bool must_fit, const SolveOptions& options, Effort& effort) {
  Placement best;
  best.proved = part.bound;
  const bool can_sweep = options.sweep && !part.any_fixed;
  if (can_sweep && part.items.size() > options.search_items) {
    solve_large(part, enough, options, effort, best);
    return best;
  }
  if (options.greedy || !can_sweep) {
    uint64_t work = can_sweep ? options.greedy_work + options.greedy_work_per_item * part.items.size() : UINT64_MAX;
    place_greedily(part, enough, {.repairs = options.repair ? options.repair_rounds : 0}, &work, best);
  }
  if (best.offsets.empty()) {
    best.height = place_by_sweep(part, &best.offsets);
    best.method = "best fit in time order";
  }
  if (part.any_fixed) return best;
  if (options.skyline && best.height > enough) place_on_skyline(part, enough, options.skyline_rounds, options.skyline_work, best);
  if (options.ejection) {
    uint64_t work =
        std::min<uint64_t>(options.ejection_work, options.ejection_work_per_item * part.items.size() * part.items.size());
    place_by_ejection(part, enough, &work, best);
  }
  if (!options.search || best.height <= enough) return best;
  const uint64_t n = part.items.size();
  const uint64_t share =
      must_fit ? effort.work : std::min(effort.work, options.search_work_base + options.search_work_per_pair * n * n);
  Effort own{share, 0};
  uint64_t work = UINT64_MAX;
  if (options.core && part.items.size() > kCoreFrom) place_core(part, options.pruning, enough, &work, own, best);
  if (options.fillers && best.height > enough) {
    Effort filled{own.work / kShareOfFillers, 0};
    own.work -= filled.work;
    place_with_fillers(part, options.pruning, enough, filled, best);
    own.work += filled.work;
    own.nodes += filled.nodes;
  }
  improve(part, options.pruning, enough, must_fit, own, best);
  effort.work -= share - own.work;
  effort.nodes += own.nodes;
  if (options.ejection && best.height > best.proved) {
    uint64_t rest = options.final_ejection_work;
    place_by_ejection(part, std::max(enough, best.proved), &rest, best);
  }
  return best;
}

}  // namespace

SolveOptions thorough(uint64_t effort) {
  SolveOptions options;
  options.search_work = 5'000'000'000 * effort;
  options.search_work_base = options.search_work;
  options.search_work_to_fit *= effort;
  options.final_ejection_work = 500'000'000 * effort;
  options.exact_items *= effort;
  return options;
}

Solution solve(const Problem& problem, const SolveOptions& options) {
  Solution out;
  Diagnostics diagnostics;
  if (!check(problem, diagnostics)) return out;
  out.offsets.assign(problem.buffers.size(), 0);
  const Split split_problem = split(problem);
  const int64_t unit = split_problem.unit;
  const std::vector<Instance>& parts = split_problem.parts;

  int64_t height = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.fixed != Buffer::kFree) out.offsets[i] = b.fixed;
    if (b.size > 0) height = std::max<int64_t>(height, (out.offsets[i] + b.size + unit - 1) / unit);
  }
  int64_t bound = height;
  for (const Instance& part : parts) bound = std::max(bound, part.bound);
  out.lower_bound = static_cast<uint64_t>(bound) * unit;
  const bool must_fit = problem.capacity > 0 && !options.minimise;
  // No part needs to be lower than the highest one, so the part of the largest bound comes first.
  int64_t enough = bound;
  if (must_fit) enough = std::max(enough, static_cast<int64_t>(problem.capacity) / unit);
  std::vector<uint32_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return parts[a].bound > parts[b].bound; });
  Effort effort{must_fit ? options.search_work_to_fit : options.search_work, 0};
  int64_t proved = bound;
  out.method = "lower bound";
  for (uint32_t k : order) {
    const Instance& part = parts[k];
    const Placement best = solve_part(part, enough, must_fit, options, effort);
    for (size_t i = 0; i < part.items.size(); ++i) out.offsets[part.items[i].buffer] = best.offsets[i] * unit;
    proved = std::max(proved, best.proved);
    if (best.height > height) {
      height = best.height;
      out.method = best.method;
    }
    enough = std::max(enough, height);
  }
  out.height = static_cast<uint64_t>(height) * unit;
  out.optimal = height <= proved;
  out.fits = problem.capacity == 0 || out.height <= problem.capacity;
  out.nodes_searched = effort.nodes;
  return out;
}

}  // namespace rlxc::plan
