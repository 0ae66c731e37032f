#include "memory/prepack.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>

#include "analysis/data_dependent_dims.h"
#include "analysis/phases.h"
#include "memory/place_arena.h"
#include "support/checked.h"

namespace rlxc {
namespace {

constexpr int kMostPlacements = 16;  // attempts to choose candidates that fit after placement

// A segment tree over steps: adds bytes to a range of steps and returns the maximum, each in O(log n).
class Loads {
 public:
  explicit Loads(size_t steps) : size_(std::bit_ceil(std::max<size_t>(steps, 1))), most_(2 * size_), all_(2 * size_) {}

  void add(size_t first, size_t end, double bytes) { add(1, 0, size_, first, end, bytes); }
  double most() const { return most_[1]; }

 private:
  void add(size_t node, size_t low, size_t high, size_t first, size_t end, double bytes) {
    if (first >= high || end <= low) return;
    if (first <= low && high <= end) {
      most_[node] += bytes;
      all_[node] += bytes;
      return;
    }
    const size_t middle = (low + high) / 2;
    add(2 * node, low, middle, first, end, bytes);
    add(2 * node + 1, middle, high, first, end, bytes);
    most_[node] = all_[node] + std::max(most_[2 * node], most_[2 * node + 1]);
  }

  size_t size_;
  std::vector<double> most_, all_;  // per tree node: maximum of its range, and bytes added to the whole range
};

// Nodes that prepack the same weights in the same way. The first node makes the buffers.
struct PrepackCandidate {
  size_t graph = 0;
  std::vector<NodeId> nodes;
  uint32_t step = 0;  // of the first node
  std::vector<PrepackedWeight> prepacked;
  double bytes = 0, saved_ns = 0;  // bytes of all buffers; time saved over all nodes
  bool chosen = true;
};

// A value computed in the load-time phase.
struct LiveBytes {
  ValueId value;
  uint32_t first = 0, last = 0;  // last: last step that reads it while weights are loaded, given the chosen candidates
  uint32_t later = 0;            // remaining reads in the steady state
  double bytes = 0;
};

class PackedRegions {
 public:
  PackedRegions(Module& m, std::vector<GraphPlan>& plans, const SymbolRanges& extents, codegen::LoweringCache* lowerings,
                const PlanOptions& options, Diagnostics& d)
      : m_(m),
        plans_(plans),
        extents_(extents),
        lowerings_(lowerings),
        options_(options),
        diagnostics_(d),
        unit_(std::max<uint64_t>(options.alignment, 64)) {}

  bool run() {
    for (size_t g = 0; g < plans_.size(); ++g) {
      find_candidates(g);
      find_made(g);
    }
    const uint64_t limit = options_.max_packed.value_or(UINT64_MAX);
    uint64_t budget = limit, total = 0;
    for (int i = 0; i < kMostPlacements; ++i) {
      choose(i + 1 < kMostPlacements ? budget : 0);
      const auto placed = place();
      if (!placed) return false;
      if ((total = *placed) <= limit) {
        settle();
        return true;
      }
      budget -= std::min(budget, total - limit);
    }
    diagnostics_.error(Code::TooLarge,
                       "what is made of weights when they are loaded takes " + std::to_string(total) + " bytes at least, " +
                           (options_.device_memory ? "--device-memory leaves " : "--max-packed allows ") + std::to_string(limit));
    return false;
  }

 private:
  double rounded(Dim bytes) const {
    return bytes.is_static() ? static_cast<double>(align_up(static_cast<uint64_t>(bytes.size()), unit_).value_or(0)) : 0;
  }

  // Whether both nodes make the same copies, although their kernels differ: those that make the copies do not.
  bool make_same(const Graph& g, const GraphPlan& plan, NodeId a, NodeId b) {
    const auto form = [&](NodeId n) {
      const auto& prepacked = lowerings_->info(g, plan.layouts, n, plan.phase).prepacked;
      std::string text;
      for (const codegen::PrepackedBuffer& p : prepacked) {
        text += std::string(name(p.dtype)) + ' ' + m_.dims.text(p.elements);
        for (uint32_t i : p.operands) text += ' ' + std::to_string(i);
      }
      const auto& lowered = lowerings_->lower(g, plan.layouts, n, true, prepacked);
      if (!lowered.kernels) return std::string();
      for (const codegen::Launch& l : lowered.kernels->launches) {
        if (!l.on_load) continue;
        kernel::Kernel k = lowered.kernels->kernels[l.kernel];
        k.comments.clear();
        text += '\n';
        for (const codegen::Binding& each : l.buffers)
          text += std::to_string(static_cast<int>(each.kind)) + '.' + std::to_string(each.index) + ' ';
        for (Dim d : l.sizes) text += m_.dims.text(d) + ' ';
        text += to_text(k);
      }
      return text;
    };
    const std::string text = form(a);
    return !text.empty() && text == form(b);
  }

  // Groups nodes that prepack the same weights in the same way.
  void find_candidates(size_t index) {
    if (!lowerings_) return;
    const Graph& g = m_.graph(GraphId(index));
    const GraphPlan& plan = plans_[index];
    std::map<std::pair<const void*, std::vector<uint32_t>>, size_t> same;  // buffers and operand values -> candidate
    std::map<std::vector<uint32_t>, std::vector<size_t>> of_values;        // operand values -> candidates
    for (NodeId n : plan.schedule) {
      if (plan.phase[n.raw] == Phase::Prologue) continue;
      const std::vector<codegen::PrepackedBuffer>& prepacked = lowerings_->info(g, plan.layouts, n, plan.phase).prepacked;
      if (prepacked.empty()) continue;
      double saved_ns = 0;
      std::vector<uint32_t> of;
      for (const codegen::PrepackedBuffer& p : prepacked) {
        for (uint32_t i : p.operands) of.push_back(g.operand(n, i).raw);
        saved_ns += p.saved_ns;
      }
      auto [shared, is_first] = same.try_emplace({&prepacked, of}, candidates_.size());
      std::vector<size_t>& others = of_values[std::move(of)];
      for (size_t i = 0; is_first && i < others.size(); ++i)
        if (make_same(g, plan, candidates_[others[i]].nodes[0], n)) {
          shared->second = others[i];
          is_first = false;
        }
      if (!is_first) {
        if (shared->second == kUnsized) continue;
        candidates_[shared->second].nodes.push_back(n);
        candidates_[shared->second].saved_ns += saved_ns;
        continue;
      }
      PrepackCandidate k{index, {n}, plan.step[n.raw], {}, 0, saved_ns, true};
      bool sized = true;
      for (const codegen::PrepackedBuffer& p : prepacked) {
        k.prepacked.push_back(
            {n, p.operands, {}, largest(m_.dims, codegen::scratch_bytes(m_.dims, p.dtype, p.elements), extents_)});
        sized = sized && k.prepacked.back().bytes.is_static();
        k.bytes += rounded(k.prepacked.back().bytes);
      }
      if (sized) {
        others.push_back(candidates_.size());
        candidates_.push_back(std::move(k));
      } else {
        shared->second = kUnsized;
      }
    }
  }

  void find_made(size_t index) {
    const Graph& g = m_.graph(GraphId(index));
    const GraphPlan& plan = plans_[index];
    std::vector<uint32_t>& at = made_at_.emplace_back(g.value_capacity(), kNone);
    std::vector<LiveBytes>& made = made_.emplace_back();
    for (NodeId n : plan.schedule)
      for (size_t r = 0; r < g.result_count(n); ++r) {
        const ValueId v = g.result(n, r);
        const Slot& s = plan.slot[v.raw];
        if (s.region != Region::Packed) continue;
        at[v.raw] = s.view ? at[s.root.raw] : static_cast<uint32_t>(made.size());
        if (!s.view) made.push_back({v, plan.step[n.raw], plan.step[n.raw], 0, rounded(s.size)});
      }
    for (NodeId n : plan.schedule)
      for (ValueId v : g.operands(n)) {
        if (!v.valid() || at[v.raw] == kNone) continue;
        LiveBytes& m = made[at[v.raw]];
        if (plan.phase[n.raw] == Phase::Prologue) m.last = std::max(m.last, plan.step[n.raw]);
        else ++m.later;
      }
    for (ValueId v : g.outputs())
      if (at[v.raw] != kNone) ++made[at[v.raw]].later;
  }

  // Calls f(value) for each load-time value that node operands need no longer read in a run, because the node reads its packed
  // copy.
  template <class F>
  void each_replaced(const PrepackCandidate& k, F f) {
    for (NodeId n : k.nodes)
      for (const PrepackedWeight& p : k.prepacked)
        for (uint32_t i : p.operands)
          if (const uint32_t at = made_at_[k.graph][m_.graph(GraphId(k.graph)).operand(n, i).raw]; at != kNone)
            f(live_ranges_[k.graph][at]);
  }

  // Chooses candidates by gain while the peak load stays within the budget or, if it is above it, does not rise. Loads cover the
  // main graph, where load-time values come and go; packed buffers of bodies are live throughout.
  void choose(uint64_t budget) {
    live_ranges_ = made_;
    for (PrepackCandidate& k : candidates_) k.chosen = true;
    const size_t end = plans_[0].schedule.size() + 1;
    std::optional<Loads> loads;
    if (budget < UINT64_MAX) {
      loads.emplace(end);
      for (const LiveBytes& m : live_ranges_[0]) loads->add(m.first, m.later > 0 ? end : m.last + 1, m.bytes);
    }
    std::vector<std::pair<LiveBytes*, LiveBytes>> before;
    for (uint32_t i : in_order_of_gain()) {
      PrepackCandidate& k = candidates_[i];
      const size_t step = k.graph == 0 ? k.step : 0;
      const double most = loads ? std::max(static_cast<double>(budget), loads->most()) : 0;
      if (loads) loads->add(step, end, k.bytes);
      before.clear();
      each_replaced(k, [&](LiveBytes& m) {
        before.emplace_back(&m, m);
        m.last = std::max(m.last, k.step);
        if (--m.later == 0 && loads) loads->add(m.last + 1, end, -m.bytes);
      });
      if (!loads || loads->most() <= most) continue;
      k.chosen = false;
      loads->add(step, end, -k.bytes);
      for (auto m = before.rbegin(); m != before.rend(); ++m) {
        if (m->first->later == 0) loads->add(m->first->last + 1, end, m->first->bytes);
        *m->first = m->second;
      }
    }
  }

  std::vector<uint32_t> in_order_of_gain() const {
    std::vector<uint32_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), uint32_t{0});
    const auto gain = [&](uint32_t i) { return candidates_[i].saved_ns / std::max(candidates_[i].bytes, 1.0); };
    std::ranges::stable_sort(order, std::greater(), gain);
    return order;
  }

  // Returns the bytes of all graphs.
  std::optional<uint64_t> place() {
    placed_.clear();
    uint64_t total = 0;
    size_t next = 0;  // candidates are in graph order
    for (size_t g = 0; g < plans_.size(); ++g) {
      const auto end = static_cast<uint32_t>(plans_[g].schedule.size());
      const Graph& graph = m_.graph(GraphId(g));
      Buffers buffers;
      const auto add = [&](ValueId v, NodeId n, uint32_t first, uint32_t last, Dim bytes) {
        buffers.owners.push_back(v);
        buffers.body_nodes.push_back(n);
        buffers.first.push_back(first);
        buffers.last.push_back(last);
        buffers.sizes.push_back(bytes);
      };
      for (const LiveBytes& m : live_ranges_[g])
        add(m.value, {}, m.first, m.later > 0 ? end : m.last, plans_[g].slot[m.value.raw].size);
      for (; next < candidates_.size() && candidates_[next].graph == g; ++next)
        for (const PrepackedWeight& p : candidates_[next].prepacked)
          if (candidates_[next].chosen) add({}, p.node, candidates_[next].step, end, p.bytes);
      if (buffers.sizes.empty()) {
        placed_.emplace_back();
        continue;
      }
      auto placed = place_buffers(graph.module().dims, buffers, unit_, options_.max_binding, options_.ranges, options_.verify,
                                  diagnostics_);
      if (!placed) return std::nullopt;
      total += static_cast<uint64_t>(placed->total.size());
      placed_.push_back(std::move(*placed));
    }
    return total;
  }

  void settle() {
    size_t next = 0;
    for (size_t g = 0; g < plans_.size(); ++g) {
      GraphPlan& plan = plans_[g];
      plan.packed_size = placed_[g].total;
      std::vector<Dim>& offsets = placed_[g].offsets;
      for (Slot& s : plan.slot)
        if (s.region == Region::Packed) s.offset = m_.dims.add(s.offset, offsets[made_at_[g][s.root.raw]]);
      size_t at = made_[g].size();
      for (; next < candidates_.size() && candidates_[next].graph == g; ++next) {
        PrepackCandidate& k = candidates_[next];
        for (PrepackedWeight& p : k.prepacked) {
          if (k.chosen) p.offset = offsets[at++];
          else plan.unpacked_bytes = m_.dims.add(plan.unpacked_bytes, p.bytes);
        }
        if (!k.chosen) plan.unpacked_nodes += static_cast<uint32_t>(k.nodes.size());
        for (NodeId n : k.chosen ? k.nodes : std::vector<NodeId>())
          for (PrepackedWeight p : k.prepacked) {
            p.node = n;
            p.shared = n != k.nodes[0];
            plan.prepacked.push_back(std::move(p));
          }
      }
      std::ranges::stable_sort(plan.prepacked, {}, [&](const PrepackedWeight& p) { return plan.step[p.node.raw]; });
    }
  }

  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr size_t kUnsized = ~size_t{0};

  Module& m_;
  std::vector<GraphPlan>& plans_;
  const SymbolRanges& extents_;
  codegen::LoweringCache* lowerings_;  // null: kernels not generated by rlxc
  const PlanOptions& options_;
  Diagnostics& diagnostics_;
  const uint64_t unit_;  // alignment of offsets
  std::vector<PrepackCandidate> candidates_;
  std::vector<std::vector<LiveBytes>> made_, live_ranges_;  // by graph: without prepacking; with the chosen candidates
  std::vector<std::vector<uint32_t>> made_at_;              // by graph and value: index of the root in `made_`
  std::vector<Placed> placed_;                              // by graph: load-time values, then packed buffers
};

}  // namespace

bool plan_packed(Module& m, std::vector<GraphPlan>& plans, const SymbolRanges& extents, codegen::LoweringCache* lowerings,
                 const PlanOptions& options, Diagnostics& diagnostics) {
  return PackedRegions(m, plans, extents, lowerings, options, diagnostics).run();
}

}  // namespace rlxc
