#include "memory/place_arena.h"

#include <algorithm>

#include "analysis/data_dependent_dims.h"
#include "ir/bind_dims.h"
#include "memory/place_symbolic.h"
#include "plan/solve.h"
#include "plan/validate.h"

namespace rlxc {
namespace {

// If the arena is larger than a block, the last unit of each block is reserved, so that no buffer crosses a block boundary.
plan::Solution solve_in_blocks(plan::Problem* problem, uint64_t alignment, uint64_t block) {
  plan::Solution solution = plan::solve(*problem);
  const uint64_t lower_bound = solution.lower_bound;
  const bool fits = std::ranges::all_of(problem->buffers, [&](const plan::Buffer& b) { return b.size <= block - alignment; });
  if (block == 0 || !fits) return solution;
  int64_t end = 0;
  for (const plan::Buffer& b : problem->buffers) end = std::max(end, b.end);
  for (uint64_t blocks = 1; solution.height > blocks * block;) {
    for (const uint64_t needed = (solution.height - 1) / block + 1; blocks < needed; ++blocks)
      problem->buffers.push_back({0, end, alignment, alignment, blocks * block - alignment});
    solution = plan::solve(*problem);
  }
  solution.lower_bound = lower_bound;
  return solution;
}

std::optional<Placed> place_static(const Buffers& buffers, const std::vector<uint64_t>& sizes, uint64_t alignment, uint64_t block,
                                   bool verify, Diagnostics& diagnostics) {
  plan::Problem problem;
  for (size_t i = 0; i < sizes.size(); ++i)
    problem.buffers.push_back({buffers.first[i], int64_t{buffers.last[i]} + 1, sizes[i], alignment});
  if (!plan::check(problem, diagnostics)) return std::nullopt;
  const plan::PeakInfo peak = plan::peak(problem);
  const plan::Solution solution = solve_in_blocks(&problem, alignment, block);
  if (verify)
    for (const plan::Finding& f : plan::validate(problem, solution.offsets, solution.height))
      diagnostics.error(Code::PlanInvalid, f.text);
  Placed out;
  for (size_t i = 0; i < sizes.size(); ++i) out.offsets.emplace_back(static_cast<int64_t>(solution.offsets[i]));
  out.total = Dim(static_cast<int64_t>(solution.height));
  out.method = solution.method;
  out.is_static = true;
  out.lower_bound = solution.lower_bound;
  out.peak = peak;
  return diagnostics.ok() ? std::optional(std::move(out)) : std::nullopt;
}

// Sizes of all symbols, from `least` on, each larger by `step`. If these contradict an equality of the module, which runs check,
// symbols that equalities with constants determine have those sizes. Nullopt if there is a contradiction still.
std::optional<DimBindings> sample_sizes(const DimTable& dims, int64_t least, int64_t step) {
  std::vector<KnownSize> known;
  for (const auto& [a, b] : dims.equalities())
    for (const auto& [dim, other] : {std::pair(a, b), std::pair(b, a)})
      if (const auto value = dims.constant_value(other)) known.push_back({dim, *value});
  for (const bool solve : {false, true}) {
    DimBindings sizes;
    if (solve) solve_dims(dims, known, &sizes);
    for (const std::string& s : dims.symbol_names()) sizes.try_emplace(s, least + step * static_cast<int64_t>(sizes.size()));
    if (std::ranges::all_of(dims.equalities(),
                            [&](const auto& e) { return dims.evaluate(e.first, sizes) == dims.evaluate(e.second, sizes); }))
      return sizes;
  }
  return std::nullopt;
}

// Evaluates the placement at several bindings and validates each like a static plan. Skips bindings whose byte counts overflow or
// are negative, which runs refuse.
bool check_symbolic(const DimTable& dims, const Buffers& buffers, const SymbolicPlacement& placement, uint64_t alignment,
                    Diagnostics& diagnostics) {
  for (const auto& [least, step] :
       std::initializer_list<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 1}, {2, 1}, {7, 1}, {64, 1}, {5, 0}, {64, 0}}) {
    const auto sizes = sample_sizes(dims, least, step);
    if (!sizes) continue;
    bool misfits = false;
    const auto bytes = [&](Dim d) {
      const auto value = dims.evaluate(d, *sizes);
      misfits |= !value || *value < 0;
      return static_cast<uint64_t>(value.value_or(0));
    };
    plan::Problem problem;
    std::vector<uint64_t> offsets;
    for (size_t i = 0; i < buffers.sizes.size(); ++i) {
      problem.buffers.push_back({buffers.first[i], int64_t{buffers.last[i]} + 1, bytes(buffers.sizes[i]), alignment});
      offsets.push_back(bytes(placement.offsets[i]));
    }
    const uint64_t total = bytes(placement.total);
    if (misfits) continue;
    for (const plan::Finding& f : plan::validate(problem, offsets, total)) diagnostics.error(Code::PlanInvalid, f.text);
  }
  return diagnostics.ok();
}

}  // namespace

std::optional<Placed> place_buffers(DimTable& dims, const Buffers& buffers, uint64_t alignment, uint64_t block,
                                    const SymbolRanges& ranges, bool verify, Diagnostics& diagnostics) {
  std::vector<uint64_t> sizes;
  bool symbolic = false;
  for (Dim d : buffers.sizes) {
    const Dim most = largest(dims, d, ranges);
    sizes.push_back(most.is_static() ? static_cast<uint64_t>(most.size()) : 0);
    symbolic |= !most.is_static();
  }
  if (symbolic) {
    SymbolicPlacement placement = place_symbolic(dims, buffers, alignment);
    if (verify && !check_symbolic(dims, buffers, placement, alignment, diagnostics)) return std::nullopt;
    Placed out;
    out.offsets = std::move(placement.offsets);
    out.total = placement.total;
    out.method = placement.method;
    return out;
  }
  return place_static(buffers, sizes, alignment, block, verify, diagnostics);
}

}  // namespace rlxc
