#include "plan/solve.h"

#include <algorithm>

#include "plan/greedy.h"
#include "plan/instance.h"
#include "plan/sweep.h"
#include "support/diagnostics.h"

namespace rlxc::plan {
namespace {

struct PartSolution {
  std::vector<int64_t> offsets;
  int64_t height = INT64_MAX;
  std::string method;
};

void greedy(const Instance& part, int64_t goal, const SolveOptions& options, PartSolution& best) {
  Placer placer(part);
  std::vector<int64_t> offsets;
  uint64_t steps = 0;
  const uint64_t cost = part.items.size() * part.items.size() / 2;
  for (const OrderKey& key : order_keys()) {
    const std::vector<uint32_t> order = order_by(part, key);
    for (Fit fit : {Fit::First, Fit::Best}) {
      if (best.height <= goal) return;
      steps += cost;
      if (steps > options.greedy_steps && best.height != INT64_MAX) return;
      const int64_t height = placer.place(order, fit, best.height, &offsets);
      if (height >= best.height) continue;
      best.height = height;
      best.offsets.swap(offsets);
      best.method = std::string(fit == Fit::First ? "first fit by " : "best fit by ") + key.name;
    }
  }
}

}  // namespace

Solution solve(const Problem& problem, const SolveOptions& options) {
  Solution out;
  Diagnostics diagnostics;
  if (!check(problem, diagnostics)) return out;
  out.lower_bound = lower_bound(problem);
  out.offsets.assign(problem.buffers.size(), 0);
  const Split parts = split(problem);
  const int64_t unit = parts.unit;
  int64_t goal = static_cast<int64_t>(out.lower_bound) / unit, height = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.fixed != Buffer::kFree) out.offsets[i] = b.fixed;
    if (b.size > 0) height = std::max<int64_t>(height, (out.offsets[i] + b.size + unit - 1) / unit);
  }
  out.method = "lower bound";
  for (const Instance& part : parts.parts) {
    PartSolution best;
    if (options.sweep && !part.any_fixed) {
      best.height = place_by_sweep(part, &best.offsets);
      best.method = "best fit in time order";
    }
    if (options.greedy || best.offsets.empty()) greedy(part, goal, options, best);
    for (size_t k = 0; k < part.items.size(); ++k) out.offsets[part.items[k].buffer] = best.offsets[k] * unit;
    if (best.height >= height) height = best.height, out.method = best.method;
  }
  out.height = static_cast<uint64_t>(height) * unit;
  out.optimal = out.height == out.lower_bound;
  out.fits = problem.capacity == 0 || out.height <= problem.capacity;
  return out;
}

}  // namespace rlxc::plan
