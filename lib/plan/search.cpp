#include "plan/search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

#include "plan/mix.h"

namespace rlxc::plan {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;
constexpr uint32_t kNoTwin = 0xFFFFFFFFu;
constexpr int kMemoBitsMin = 8, kMemoBitsMax = 20;
constexpr uint32_t kStaircaseItems = 512;  // above this, sorting costs more than the bound saves

auto kind(const Item& i) { return std::tuple(i.lo, i.hi, i.size, i.align); }

}  // namespace

Search::Search(const Instance& in, const SearchOptions& options) : instance_(in), options_(options) {
  const size_t n = in.items.size();
  for (const Item& i : in.items) {
    lo_.push_back(i.lo);
    hi_.push_back(i.hi);
    size_.push_back(i.size);
    align_.push_back(i.align);
  }
  rank_.resize(n);
  effective_.resize(n);
  lowest_.resize(in.sections());
  second_.resize(in.sections());
  load_.resize(in.sections());
  tops_.resize(in.sections());
  fillers_.resize(in.sections());
}

void Search::find_twins(std::span<const uint32_t> order) {
  std::vector<uint32_t> sorted(order.begin(), order.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](uint32_t a, uint32_t b) { return kind(instance_.items[a]) < kind(instance_.items[b]); });
  twin_.assign(sorted.size(), kNoTwin);
  for (size_t k = 1; k < sorted.size(); ++k)
    if (kind(instance_.items[sorted[k - 1]]) == kind(instance_.items[sorted[k]])) twin_[sorted[k]] = sorted[k - 1];
}

Verdict Search::run(int64_t height, std::span<const uint32_t> order, Guide guide, const SearchBudget& budget,
                    std::vector<int64_t>* offsets) {
  guide_ = guide;
  const uint32_t n = static_cast<uint32_t>(instance_.items.size());
  height_ = height;
  if (options_.memo && memo_.empty()) {
    memo_bits_ = std::clamp<int>(std::bit_width(budget.work / 1024), kMemoBitsMin, kMemoBitsMax);
    memo_.resize(size_t{1} << memo_bits_);
  }
  stop_ = {nodes_ + budget.nodes, work_ + budget.work};
  for (uint32_t r = 0; r < n; ++r) rank_[order[r]] = r;
  find_twins(order);
  least_.assign(n, 0);
  refused_.assign(n, -1);
  offset_.assign(n, 0);
  placed_.assign(n, 0);
  open_.resize(n);
  for (uint32_t i = 0; i < n; ++i) open_[i] = i;
  candidates_.clear();
  undo_.clear();
  const Verdict verdict = branch({0, n}, 0);
  if (verdict == Verdict::Found) *offsets = offset_;
  return verdict;
}

void Search::rewind(size_t mark) {
  for (; undo_.size() > mark; undo_.pop_back()) {
    const Undo& u = undo_.back();
    (u.refusal ? refused_ : least_)[u.item] = u.old;
  }
}

// Raises the effective offsets of deferred items. Returns false if one cannot be placed any more.
bool Search::lift_deferred(Range open, int64_t last) {
  const uint32_t from = lo_[open_[open.begin]];
  uint32_t to = 0;
  for (uint32_t k = open.begin; k < open.end; ++k) to = std::max(to, hi_[open_[k]]);
  std::fill(lowest_.begin() + from, lowest_.begin() + to, kNever);
  std::fill(second_.begin() + from, second_.begin() + to, kNever);
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    const int64_t top = effective_[j] + size_[j];
    for (uint32_t s = lo_[j]; s < hi_[j]; ++s) {
      second_[s] = std::min(second_[s], std::max(lowest_[s], top));
      lowest_[s] = std::min(lowest_[s], top);
    }
  }
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    if (!deferred(j, last)) continue;
    // If the item's own top is the lowest, the second lowest belongs to another item (or is equal).
    const int64_t top = effective_[j] + size_[j];
    int64_t rest = kNever;
    for (uint32_t s = lo_[j]; s < hi_[j]; ++s) rest = std::min(rest, lowest_[s] == top ? second_[s] : lowest_[s]);
    if (rest + size_[j] > height_) return false;
    effective_[j] = std::max(effective_[j], round_up(rest, align_[j]));
  }
  return true;
}

// Stacks the open items on their least effective offsets. Returns false if a section overflows.
bool Search::climb(Range open) {
  const uint32_t from = lo_[open_[open.begin]];
  uint32_t to = 0;
  for (uint32_t k = open.begin; k < open.end; ++k) to = std::max(to, hi_[open_[k]]);
  std::fill(load_.begin() + from, load_.begin() + to, 0);
  if (options_.staircase && open.end - open.begin <= kStaircaseItems) {
    falling_.clear();
    for (uint32_t k = open.begin; k < open.end; ++k) falling_.push_back({-effective_[open_[k]], open_[k]});
    std::sort(falling_.begin(), falling_.end());
    for (const auto& [negative, j] : falling_) {
      int64_t most = 0;
      const int64_t size = size_[j];
      for (uint32_t s = lo_[j]; s < hi_[j]; ++s) {
        load_[s] += size;
        most = std::max(most, load_[s]);
      }
      if (most - negative > height_) return false;
    }
    return true;
  }
  std::fill(lowest_.begin() + from, lowest_.begin() + to, kNever);
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    const int64_t size = size_[j], least = effective_[j];
    for (uint32_t s = lo_[j]; s < hi_[j]; ++s) {
      load_[s] += size;
      lowest_[s] = std::min(lowest_[s], least);
    }
  }
  for (uint32_t s = from; s < to; ++s)
    if (load_[s] > 0 && lowest_[s] + load_[s] > height_) return false;
  return true;
}

// Returns false if the open items cannot all be placed. Sets the effective offsets and the memo key.
bool Search::bound(Range open, int64_t last, uint64_t* key) {
  bool any_deferred = false;
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    any_deferred |= deferred(j, last);
    effective_[j] = least_[j] >= last ? least_[j] : round_up(last, align_[j]);
    work_ += hi_[j] - lo_[j];
  }
  work_ += 64 + 4 * (open.end - open.begin);
  if (any_deferred && options_.deferral && !lift_deferred(open, last)) return false;
  uint64_t hash = static_cast<uint64_t>(height_);
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    if (effective_[j] + size_[j] > height_) return false;
    hash += mix((uint64_t{j} + 1) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(effective_[j]) * 0xD1B54A32D192ED03u);
  }
  *key = mix(hash) | 1;
  return climb(open);
}

// In a section without free space, the lowest open item has exactly the least effective offset. The candidates are the items that
// rest there, if all others begin too high to take their place and nothing can still get below them. The same holds at the least
// offset overall if the free space is smaller than the smallest item. Chooses the section with the fewest candidates that the
// guide allows; returns false if there is none.
bool Search::narrow(Range open, int64_t last, size_t first) {
  uint32_t from = lo_[open_[open.begin]], to = 0;
  int64_t ground = kNever, smallest = kNever;
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    to = std::max(to, hi_[j]), ground = std::min(ground, effective_[j]), smallest = std::min(smallest, size_[j]);
    work_ += hi_[j] - lo_[j];
  }
  const auto clear = [&](auto& list, auto value) { std::fill(list.begin() + from, list.begin() + to, value); };
  clear(lowest_, kNever), clear(second_, kNever), clear(tops_, kNever), clear(fillers_, 0u);
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    for (uint32_t s = lo_[j]; s < hi_[j]; ++s) {
      lowest_[s] = std::min(lowest_[s], effective_[j]);
      tops_[s] = std::min(tops_[s], effective_[j] + size_[j]);
    }
  }
  const auto is_twin = [&](uint32_t j) { return options_.twins && twin_[j] != kNoTwin && !placed_[twin_[j]]; };
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    bool fills = !deferred(j, last) && least_[j] == effective_[j];
    for (uint32_t s = lo_[j]; s < hi_[j] && fills; ++s) fills = tops_[s] > effective_[j];
    for (uint32_t s = lo_[j]; s < hi_[j]; ++s) {
      const bool rests = fills && effective_[j] == lowest_[s];
      if (!rests) second_[s] = std::min(second_[s], effective_[j]);
      fillers_[s] += rests && !is_twin(j);
    }
  }
  const auto filled_by_next = [&](uint32_t s) {
    if (first == candidates_.size()) return false;
    const Candidate& next = candidates_[first];
    return lo_[next.item] <= s && s < hi_[next.item] && lowest_[s] == next.offset;
  };
  uint32_t best = kNoTwin;
  for (uint32_t s = from; s < to; ++s) {
    if (fillers_[s] == 0 || (best != kNoTwin && fillers_[s] >= fillers_[best])) continue;
    if (fillers_[s] > 1 && guide_ == Guide::Order && !filled_by_next(s)) continue;
    const int64_t left = height_ - lowest_[s] - load_[s];
    if (second_[s] > lowest_[s] + left && (left == 0 || (lowest_[s] == ground && left < smallest))) best = s;
  }
  if (best == kNoTwin) return false;
  candidates_.resize(first);
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    if (lo_[j] <= best && best < hi_[j] && least_[j] == lowest_[best] && !is_twin(j))
      candidates_.push_back({least_[j], rank_[j], j});
  }
  return true;
}

Verdict Search::branch(Range open, int64_t last) {
  if (work_ >= stop_.work || nodes_ >= stop_.nodes) return Verdict::OutOfBudget;
  ++nodes_;
  uint64_t key;
  if (!bound(open, last, &key)) return Verdict::Infeasible;
  uint64_t* memo = options_.memo ? &memo_[key >> (64 - memo_bits_)] : nullptr;
  if (memo && *memo == key) return Verdict::Infeasible;

  int64_t lowest_top = kNever;
  if (options_.dominance)
    for (uint32_t k = open.begin; k < open.end; ++k) lowest_top = std::min(lowest_top, least_[open_[k]] + size_[open_[k]]);
  const size_t first = candidates_.size();
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    if (deferred(j, last) || least_[j] >= lowest_top) continue;
    if (options_.twins && twin_[j] != kNoTwin && !placed_[twin_[j]]) continue;
    candidates_.push_back({least_[j], rank_[j], j});
  }
  const auto sort = [&] {
    std::sort(
        candidates_.begin() + static_cast<std::ptrdiff_t>(first), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.offset != b.offset ? a.offset < b.offset : a.rank < b.rank; });
  };
  sort();
  const bool narrowed = options_.tight && narrow(open, last, first);
  if (narrowed) sort();
  const size_t end = candidates_.size();

  Verdict verdict = Verdict::Infeasible;
  const size_t mark = undo_.size(), lists = open_.size();
  for (size_t c = first; c < end; ++c) {
    const Candidate pick = candidates_[c];
    const size_t before = undo_.size();
    verdict = place(open, pick, narrowed ? last : pick.offset);
    if (verdict == Verdict::Found) return verdict;
    rewind(before);
    open_.resize(lists);
    for (uint32_t k = open.begin; k < open.end; ++k) placed_[open_[k]] = 0;
    if (verdict == Verdict::OutOfBudget) break;
    undo_.push_back({pick.item, true, refused_[pick.item]});
    refused_[pick.item] = pick.offset;
  }
  rewind(mark);
  candidates_.resize(first);
  if (memo && verdict == Verdict::Infeasible) *memo = key;
  return verdict;
}

Verdict Search::place(Range open, const Candidate& pick, int64_t last) {
  const uint32_t lo = lo_[pick.item], hi = hi_[pick.item];
  const int64_t top = pick.offset + size_[pick.item];
  offset_[pick.item] = pick.offset;
  placed_[pick.item] = 1;
  std::vector<Range> parts;
  uint32_t reach = 0;
  for (uint32_t k = open.begin; k < open.end; ++k) {
    const uint32_t j = open_[k];
    if (j == pick.item) continue;
    if (lo_[j] < hi && lo < hi_[j] && least_[j] < top) {
      undo_.push_back({j, false, least_[j]});
      least_[j] = round_up(top, align_[j]);
      if (least_[j] + size_[j] > height_) return Verdict::Infeasible;
    }
    const uint32_t at = static_cast<uint32_t>(open_.size());
    if (parts.empty() || (lo_[j] >= reach && options_.decomposition)) parts.push_back({at, at});
    reach = std::max(reach, hi_[j]);
    open_.push_back(j);
    parts.back().end = at + 1;
  }
  std::stable_sort(parts.begin(), parts.end(), [](Range a, Range b) { return a.end - a.begin < b.end - b.begin; });
  for (const Range& part : parts)
    if (const Verdict verdict = branch(part, last); verdict != Verdict::Found) return verdict;
  return Verdict::Found;
}

}  // namespace rlxc::plan
