#include "plan/solve.h"

#include <algorithm>
#include <numeric>

#include "plan/greedy.h"
#include "plan/improve.h"
#include "plan/instance.h"
#include "plan/sweep.h"
#include "support/diagnostics.h"

namespace rlxc::plan {
namespace {

void greedy(const Instance& part, int64_t enough, const SolveOptions& options, Placement& best) {
  Placer placer(part);
  std::vector<int64_t> offsets;
  uint64_t work = 0;
  const uint64_t cost = part.items.size() * part.items.size() / 2;
  for (const OrderKey& key : order_keys()) {
    const std::vector<uint32_t> order = order_by(part, key);
    for (Fit fit : {Fit::First, Fit::Best}) {
      if (best.height <= enough) return;
      work += cost;
      if (work > options.greedy_work && best.height != INT64_MAX) return;
      const int64_t height = placer.place(order, fit, best.height, &offsets);
      if (height >= best.height) continue;
      best.height = height;
      best.offsets.swap(offsets);
      best.method = std::string(fit == Fit::First ? "first fit by " : "best fit by ") + key.name;
    }
  }
}

Placement solve_part(const Instance& part, int64_t enough, const SolveOptions& options, Effort& effort) {
  Placement best;
  best.proved = part.bound;
  if (options.sweep && !part.any_fixed) {
    best.height = place_by_sweep(part, &best.offsets);
    best.method = "best fit in time order";
  }
  if (options.greedy || best.offsets.empty()) greedy(part, enough, options, best);
  if (options.search && !part.any_fixed && part.items.size() <= options.search_items)
    improve(part, options.pruning, enough, effort, best);
  return best;
}

}  // namespace

Solution solve(const Problem& problem, const SolveOptions& options) {
  Solution out;
  Diagnostics diagnostics;
  if (!check(problem, diagnostics)) return out;
  out.lower_bound = lower_bound(problem);
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
  // No part has to be lower than the highest one, so the most loaded comes first.
  int64_t enough = std::max(height, static_cast<int64_t>(out.lower_bound) / unit);
  if (problem.capacity > 0 && !options.minimise) enough = std::max(enough, static_cast<int64_t>(problem.capacity) / unit);
  std::vector<uint32_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return parts[a].bound > parts[b].bound; });
  Effort effort{options.search_work, 0};
  int64_t proved = height;
  out.method = "lower bound";
  for (uint32_t k : order) {
    const Instance& part = parts[k];
    const Placement best = solve_part(part, enough, options, effort);
    for (size_t i = 0; i < part.items.size(); ++i) out.offsets[part.items[i].buffer] = best.offsets[i] * unit;
    proved = std::max(proved, best.proved);
    if (best.height > height) height = best.height, out.method = best.method;
    enough = std::max(enough, height);
  }
  out.height = static_cast<uint64_t>(height) * unit;
  out.optimal = height <= proved || out.height == out.lower_bound;
  out.fits = problem.capacity == 0 || out.height <= problem.capacity;
  out.nodes_searched = effort.nodes;
  return out;
}

}  // namespace rlxc::plan
