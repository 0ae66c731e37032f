#include "memory/place_symbolic.h"

#include <algorithm>
#include <optional>

#include "plan/solve.h"

namespace rlxc {
namespace {

// First fit in time order. A buffer takes a free lane of equal size, else a free lane proven large enough, else a new lane.
// Symbols may be 0, as the rows of a cache before the first run.
SymbolicPlacement in_lanes(DimTable& dims, const Buffers& buffers, const std::vector<Dim>& sizes) {
  struct Lane {
    Dim size;
    uint32_t free_from = 0;
    std::vector<size_t> members;
  };
  constexpr size_t kTried = 256;  // bounds the search in graphs with very many lanes
  std::vector<size_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers.first[a] < buffers.first[b]; });
  std::vector<Lane> lanes;
  for (size_t i : order) {
    Lane* best = nullptr;
    for (size_t k = 0; k < std::min(lanes.size(), kTried); ++k) {
      Lane& lane = lanes[lanes.size() - 1 - k];
      if (lane.free_from > buffers.first[i]) continue;
      if (lane.size == sizes[i]) {
        best = &lane;
        break;
      }
      if (!best && dims.at_least(dims.sub(lane.size, sizes[i]), 0, 0)) best = &lane;
    }
    if (!best) best = &lanes.emplace_back(Lane{sizes[i], 0, {}});
    best->free_from = buffers.last[i] == kForever ? kForever : buffers.last[i] + 1;
    best->members.push_back(i);
  }
  SymbolicPlacement out{std::vector<Dim>(sizes.size()), Dim(0), "lanes"};
  for (const Lane& lane : lanes) {
    for (size_t i : lane.members) out.offsets[i] = out.total;
    out.total = dims.add(out.total, lane.size);
  }
  return out;
}

// A size as the product of a constant and an expression.
struct Multiple {
  int64_t factor;
  Dim of;
};

Multiple multiple_of(DimTable& dims, Dim size) {
  if (size.is_static()) return {size.size(), Dim(1)};
  DimBindings ones;
  for (std::string& s : dims.symbols_of(size)) ones[std::move(s)] = 1;
  const int64_t factor = dims.evaluate(size, ones).value_or(0);
  const Dim of = factor > 0 ? dims.floor_div(size, Dim(factor)) : Dim(0);
  return factor > 0 && dims.mul(of, Dim(factor)) == size ? Multiple{factor, of} : Multiple{1, size};
}

// Nullopt if the factors overflow when added.
std::optional<SymbolicPlacement> in_multiples(DimTable& dims, const Buffers& buffers, const std::vector<Dim>& sizes,
                                              uint64_t alignment) {
  struct Group {
    Dim of;
    std::vector<size_t> members;
    plan::Problem problem;
  };
  std::vector<Group> groups;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Multiple m = multiple_of(dims, sizes[i]);
    auto group = std::ranges::find(groups, m.of, &Group::of);
    if (group == groups.end()) group = groups.insert(groups.end(), {m.of, {}, {}});
    group->members.push_back(i);
    group->problem.buffers.push_back(
        {buffers.first[i], int64_t{buffers.last[i]} + 1, static_cast<uint64_t>(m.factor), m.of == sizes[i] ? 1 : alignment});
  }
  SymbolicPlacement out{std::vector<Dim>(sizes.size()), Dim(0), "multiples"};
  for (const Group& g : groups) {
    const plan::Solution solution = plan::solve(g.problem);
    if (solution.offsets.empty()) return std::nullopt;
    for (size_t k = 0; k < g.members.size(); ++k)
      out.offsets[g.members[k]] = dims.add(out.total, dims.mul(g.of, Dim(static_cast<int64_t>(solution.offsets[k]))));
    out.total = dims.add(out.total, dims.mul(g.of, Dim(static_cast<int64_t>(solution.height))));
  }
  return out;
}

}  // namespace

SymbolicPlacement place_symbolic(DimTable& dims, const Buffers& buffers, uint64_t alignment) {
  const Dim unit(static_cast<int64_t>(alignment));
  std::vector<Dim> sizes;
  for (Dim d : buffers.sizes) sizes.push_back(dims.mul(dims.ceil_div(d, unit), unit));
  SymbolicPlacement lanes = in_lanes(dims, buffers, sizes);
  auto multiples = in_multiples(dims, buffers, sizes, alignment);
  return multiples && sample_size(dims, multiples->total) < sample_size(dims, lanes.total) ? std::move(*multiples)
                                                                                           : std::move(lanes);
}

}  // namespace rlxc
