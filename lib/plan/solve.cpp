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

// Greedy placements, the best of all orders; then rounds that move whatever stuck out of the goal to the front of the order.
void greedy(const Instance& part, int64_t enough, const SolveOptions& options, uint64_t work, Placement& best) {
  Placer placer(part);
  std::vector<uint32_t> best_order;
  std::vector<int64_t> offsets;
  Fit best_fit = Fit::First;
  auto attempt = [&](const std::vector<uint32_t>& order, Fit fit, int64_t limit, const char* name) {
    const int64_t height = placer.place(order, fit, limit, &work, &offsets);
    if (height >= best.height) return;
    best.height = height;
    best.offsets = offsets;
    best.method = std::string(fit == Fit::First ? "first fit by " : "best fit by ") + name;
    best_order = order;
    best_fit = fit;
  };
  for (const OrderKey& key : order_keys()) {
    const std::vector<uint32_t> order = order_by(part, key);
    for (Fit fit : {Fit::First, Fit::Best}) {
      if (best.height <= enough || work == 0) return;
      attempt(order, fit, best.height, key.name);
    }
  }
  if (!options.repair || best_order.empty()) return;
  std::vector<uint32_t> order = best_order, late;
  offsets = best.offsets;
  for (uint32_t round = 0; round < options.repair_rounds && best.height > enough && work > 0; ++round) {
    late.clear();
    auto sticks_out = [&](uint32_t k) { return offsets[k] + part.items[k].size > enough; };
    std::copy_if(order.begin(), order.end(), std::back_inserter(late), sticks_out);
    std::copy_if(order.begin(), order.end(), std::back_inserter(late), [&](uint32_t k) { return !sticks_out(k); });
    order.swap(late);
    attempt(order, best_fit, INT64_MAX, "repaired order");
  }
}

Placement solve_part(const Instance& part, int64_t enough, bool must_fit, const SolveOptions& options, Effort& effort) {
  Placement best;
  best.proved = part.bound;
  if (options.greedy || part.any_fixed || !options.sweep)
    greedy(part, enough, options, options.greedy && !part.any_fixed && options.sweep ? options.greedy_work : UINT64_MAX, best);
  if (options.sweep && best.offsets.empty()) {
    best.height = place_by_sweep(part, &best.offsets);
    best.method = "best fit in time order";
  }
  if (options.search && !part.any_fixed && part.items.size() <= options.search_items && best.height > enough) {
    const uint64_t share = must_fit ? effort.work : std::min(effort.work, options.search_work_per_item * part.items.size());
    Effort own{share, 0};
    improve(part, options.pruning, enough, own, best);
    effort.work -= share - own.work;
    effort.nodes += own.nodes;
  }
  return best;
}

}  // namespace

SolveOptions thorough() {
  SolveOptions options;
  options.search_work = 5'000'000'000;
  options.search_work_per_item = options.search_work;
  return options;
}

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
  const bool must_fit = problem.capacity > 0 && !options.minimise;
  // No part has to be lower than the highest one, so the most loaded comes first.
  int64_t enough = std::max(height, static_cast<int64_t>(out.lower_bound) / unit);
  if (must_fit) enough = std::max(enough, static_cast<int64_t>(problem.capacity) / unit);
  std::vector<uint32_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return parts[a].bound > parts[b].bound; });
  Effort effort{must_fit ? options.search_work_to_fit : options.search_work, 0};
  int64_t proved = height;
  out.method = "lower bound";
  for (uint32_t k : order) {
    const Instance& part = parts[k];
    const Placement best = solve_part(part, enough, must_fit, options, effort);
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
