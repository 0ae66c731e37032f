#include "driver/place_arena.h"

#include <algorithm>

#include "analysis/extents.h"
#include "plan/solve.h"
#include "plan/validate.h"

namespace rlxc {
namespace {

std::optional<Placed> place_static(const Buffers& buffers, const std::vector<uint64_t>& sizes, uint64_t alignment, bool verify,
                                   Diagnostics& diagnostics) {
  plan::Problem problem;
  for (size_t i = 0; i < sizes.size(); ++i)
    problem.buffers.push_back({buffers.first[i], int64_t{buffers.last[i]} + 1, sizes[i], alignment});
  if (!plan::check(problem, diagnostics)) return std::nullopt;
  const plan::Solution solution = plan::solve(problem);
  if (verify)
    for (const plan::Finding& f : plan::validate(problem, solution.offsets, solution.height))
      diagnostics.error(Code::PlanInvalid, f.text);
  Placed out;
  for (uint64_t offset : solution.offsets) out.offsets.emplace_back(static_cast<int64_t>(offset));
  out.total = Dim(static_cast<int64_t>(solution.height));
  out.method = solution.method;
  out.is_static = true;
  out.lower_bound = solution.lower_bound;
  out.peak = plan::peak(problem);
  return diagnostics.ok() ? std::optional(std::move(out)) : std::nullopt;
}

// First fit over lanes in time order: a free lane of the same size, else one that is proven large enough, else a new one.
Placed place_lanes(DimTable& dims, const Buffers& buffers, uint64_t alignment) {
  struct Lane {
    Dim size;
    uint32_t free_from = 0;
    std::vector<size_t> members;
  };
  constexpr size_t kTried = 256;  // bounds the search in graphs with very many lanes
  const Dim unit(static_cast<int64_t>(alignment));
  std::vector<size_t> order(buffers.sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers.first[a] < buffers.first[b]; });
  std::vector<Lane> lanes;
  for (size_t i : order) {
    const Dim size = dims.mul(dims.ceil_div(buffers.sizes[i], unit), unit);
    Lane* best = nullptr;
    for (size_t k = 0; k < std::min(lanes.size(), kTried); ++k) {
      Lane& lane = lanes[lanes.size() - 1 - k];
      if (lane.free_from > buffers.first[i]) continue;
      if (lane.size == size) {
        best = &lane;
        break;
      }
      if (!best && dims.at_least(dims.sub(lane.size, size), 0)) best = &lane;
    }
    if (!best) best = &lanes.emplace_back(Lane{size, 0, {}});
    best->free_from = buffers.last[i] == kForever ? kForever : buffers.last[i] + 1;
    best->members.push_back(i);
  }
  Placed out;
  out.method = "lanes";
  out.offsets.resize(buffers.sizes.size());
  for (const Lane& lane : lanes) {
    for (size_t i : lane.members) out.offsets[i] = out.total;
    out.total = dims.add(out.total, lane.size);
  }
  return out;
}

}  // namespace

std::optional<Placed> place_buffers(DimTable& dims, const Buffers& buffers, uint64_t alignment, const SymbolRanges& ranges,
                                    bool verify, Diagnostics& diagnostics) {
  std::vector<uint64_t> sizes;
  for (Dim d : buffers.sizes) {
    const Dim most = largest(dims, d, ranges);
    if (!most.is_static()) return place_lanes(dims, buffers, alignment);
    sizes.push_back(static_cast<uint64_t>(most.size()));
  }
  return place_static(buffers, sizes, alignment, verify, diagnostics);
}

}  // namespace rlxc
