#include "driver/plan_lir.h"

#include <algorithm>

#include "analysis/extents.h"
#include "analysis/phases.h"
#include "analysis/views.h"
#include "plan/solve.h"
#include "plan/validate.h"

namespace rlxc {
namespace {

constexpr uint32_t kForever = ~uint32_t{0};

// The buffers of one region while its plan is made.
struct Job {
  std::vector<ValueId> owners;        // invalid for the arenas of bodies
  std::vector<NodeId> body_nodes;     // parallel: the node whose bodies use the buffer
  std::vector<uint32_t> first, last;  // steps, inclusive
  std::vector<Dim> sizes;
};

class GraphPlanner {
 public:
  GraphPlanner(Graph& g, const std::vector<GraphPlan>& plans, const SymbolRanges& extents, const PlanOptions& options,
               Diagnostics& diagnostics)
      : g_(g), dims_(g.module().dims), plans_(plans), extents_(extents), options_(options), diagnostics_(diagnostics) {}

  bool run(uint64_t* weights_size) {
    index_nodes();
    lives();
    place_boundary(weights_size);
    share_in_place();
    Job activations, packed;
    collect(&activations, &packed);
    if (!place(activations, Region::Activations) || !place(packed, Region::Packed)) return false;
    spread_to_views();
    account(activations);
    return true;
  }

  GraphPlan take() { return std::move(plan_); }

 private:
  Dim bytes(ValueId v) { return largest(dims_, dense_bytes(dims_, g_.type(v)), extents_); }

  Dim aligned(Dim size) {
    const Dim unit(static_cast<int64_t>(options_.alignment));
    return dims_.mul(dims_.ceil_div(size, unit), unit);
  }

  void index_nodes() {
    plan_.step.assign(g_.node_capacity(), 0);
    plan_.body_offset.assign(g_.node_capacity(), Dim(0));
    for (NodeId n : g_.nodes()) {
      plan_.step[n.raw] = static_cast<uint32_t>(plan_.schedule.size());
      plan_.schedule.push_back(n);
    }
    plan_.phase = derive_phases(g_);
    plan_.slot.resize(g_.value_capacity());
    views_ = resolve_views(g_);
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        Slot& s = plan_.slot[g_.result(n, r).raw];
        s.root = views_.root[g_.result(n, r).raw];
        s.view = s.root != g_.result(n, r);
        s.size = bytes(g_.result(n, r));
        s.offset = views_.offset[g_.result(n, r).raw];
      }
  }

  void lives() {
    last_use_.assign(g_.value_capacity(), 0);
    const auto end = static_cast<uint32_t>(plan_.schedule.size());
    for (NodeId n : plan_.schedule) {
      const uint32_t step = plan_.step[n.raw];
      const bool later = plan_.phase[n.raw] != Phase::Prologue;
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        plan_.slot[v.raw].first_step = plan_.slot[v.raw].last_step = step;
        touch(v, step);
      }
      for (ValueId v : g_.operands(n)) {
        if (!v.valid()) continue;
        plan_.slot[v.raw].last_step = std::max(plan_.slot[v.raw].last_step, step);
        // What the prologue makes for later calls must survive all of them.
        touch(v, later && plan_.phase[g_.def(v).raw] == Phase::Prologue ? kForever : step);
      }
    }
    for (ValueId v : g_.outputs()) {
      plan_.slot[v.raw].last_step = end;
      touch(v, plan_.phase[g_.def(v).raw] == Phase::Prologue ? kForever : end);
    }
  }

  void touch(ValueId v, uint32_t step) {
    uint32_t& last = last_use_[views_.root[v.raw].raw];
    last = std::max(last, step);
  }

  void place_boundary(uint64_t* weights_size) {
    uint32_t index = 0;
    for (NodeId n : g_.inputs()) set_region(g_.result(n), Region::Input, index++);
    for (NodeId n : plan_.schedule) {
      if (g_.op(n) != OpKind::Param && g_.op(n) != OpKind::Constant) continue;
      Slot& s = plan_.slot[g_.result(n).raw];
      set_region(g_.result(n), Region::Weights, 0);
      s.offset = Dim(static_cast<int64_t>(*weights_size));
      const uint64_t size = s.size.is_static() ? static_cast<uint64_t>(s.size.size()) : 0;
      *weights_size += (size + options_.alignment - 1) / options_.alignment * options_.alignment;
    }
    // An output is written where the caller wants it when it is a whole buffer of its own; other outputs are copied at the end.
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      const ValueId v = g_.outputs()[i], root = views_.root[v.raw];
      const NodeId maker = g_.def(root);
      if (plan_.slot[root.raw].region != Region::None || has_trait(g_.op(maker), kLeaf) ||
          plan_.phase[maker.raw] == Phase::Prologue)
        continue;
      if (views_.offset[v.raw] != Dim(0) || !dims_.equal(plan_.slot[v.raw].size, plan_.slot[root.raw].size)) continue;
      set_region(root, Region::Output, static_cast<uint32_t>(i));
    }
  }

  void set_region(ValueId v, Region region, uint32_t index) {
    plan_.slot[v.raw].region = region;
    plan_.slot[v.raw].index = index;
  }

  // A result may overwrite an operand of the same shape and width that is read here for the last time.
  void share_in_place() {
    owner_.resize(g_.value_capacity());
    for (size_t v = 0; v < owner_.size(); ++v) owner_[v] = ValueId(v);
    if (!options_.in_place) return;
    for (NodeId n : plan_.schedule) {
      if (!has_trait(g_.op(n), kElementwise) || !has_trait(g_.op(n), kInPlace) || plan_.phase[n.raw] == Phase::Prologue) continue;
      const ValueId result = g_.result(n);
      Slot& s = plan_.slot[result.raw];
      if (s.region != Region::None) continue;
      for (ValueId v : g_.operands(n)) {
        if (!v.valid() || !dies_here(n, v, result)) continue;
        owner_[result.raw] = owner_[views_.root[v.raw].raw];
        s.in_place = true;
        break;
      }
    }
  }

  bool dies_here(NodeId n, ValueId v, ValueId result) {
    const ValueId root = views_.root[v.raw];
    const Slot& s = plan_.slot[root.raw];
    const NodeId maker = g_.def(root);
    if (s.region != Region::None || has_trait(g_.op(maker), kLeaf) || plan_.phase[maker.raw] == Phase::Prologue) return false;
    if (last_use_[root.raw] != plan_.step[n.raw] || views_.offset[v.raw] != Dim(0)) return false;
    if (bits(g_.dtype(v)) != bits(g_.dtype(result)) || !std::ranges::equal(g_.dims(v), g_.dims(result)) ||
        s.size != plan_.slot[v.raw].size)
      return false;
    for (ValueId other : g_.operands(n))
      if (other.valid() && other != v && views_.root[other.raw] == root) return false;
    return true;
  }

  void collect(Job* activations, Job* packed) {
    std::vector<uint32_t> last = last_use_;
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        if (owner_[v.raw] != v) last[owner_[v.raw].raw] = std::max(last[owner_[v.raw].raw], last[v.raw]);
      }
    const auto end = static_cast<uint32_t>(plan_.schedule.size());
    for (NodeId n : plan_.schedule) {
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        const Slot& s = plan_.slot[v.raw];
        if (s.view || s.region != Region::None || owner_[v.raw] != v || s.size == Dim(0)) continue;
        Job& job = plan_.phase[n.raw] == Phase::Prologue ? *packed : *activations;
        job.owners.push_back(v);
        job.body_nodes.emplace_back();
        job.first.push_back(plan_.step[n.raw]);
        job.last.push_back(std::min(last[v.raw], end));
        job.sizes.push_back(s.size);
      }
      Dim body_bytes(0);
      for (GraphId b : g_.bodies(n)) body_bytes = dims_.add(body_bytes, aligned(plans_[b.raw].arena_size));
      if (body_bytes == Dim(0)) continue;
      activations->owners.emplace_back();
      activations->body_nodes.push_back(n);
      activations->first.push_back(plan_.step[n.raw]);
      activations->last.push_back(plan_.step[n.raw]);
      activations->sizes.push_back(body_bytes);
    }
  }

  bool place(const Job& job, Region region) {
    const bool is_static = std::all_of(job.sizes.begin(), job.sizes.end(), [](Dim d) { return d.is_static(); });
    std::vector<Dim> offsets(job.sizes.size());
    Dim& total = region == Region::Packed ? plan_.packed_size : plan_.arena_size;
    if (is_static ? !place_static(job, region, &offsets, &total) : !place_lanes(job, &offsets, &total)) return false;
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (job.owners[i].valid()) {
        set_region(job.owners[i], region, 0);
        plan_.slot[job.owners[i].raw].offset = offsets[i];
      } else {
        plan_.body_offset[job.body_nodes[i].raw] = offsets[i];
      }
    }
    return true;
  }

  bool place_static(const Job& job, Region region, std::vector<Dim>* offsets, Dim* total) {
    plan::Problem problem;
    for (size_t i = 0; i < job.sizes.size(); ++i)
      problem.buffers.push_back({job.first[i], int64_t{job.last[i]} + 1, static_cast<uint64_t>(job.sizes[i].size()),
                                 options_.alignment, plan::Buffer::kFree});
    if (!plan::check(problem, diagnostics_)) return false;
    const plan::Solution solution = plan::solve(problem);
    if (options_.verify)
      for (const plan::Finding& f : plan::validate(problem, solution.offsets, solution.height))
        diagnostics_.error(Code::PlanInvalid, f.text);
    for (size_t i = 0; i < offsets->size(); ++i) (*offsets)[i] = Dim(static_cast<int64_t>(solution.offsets[i]));
    *total = Dim(static_cast<int64_t>(solution.height));
    if (region == Region::Activations) {
      const plan::PeakInfo peak = plan::peak(problem);
      plan_.lower_bound = solution.lower_bound;
      plan_.peak_step = static_cast<uint32_t>(peak.step);
      for (uint32_t b : peak.buffers)
        if (job.owners[b].valid()) plan_.peak_values.push_back(job.owners[b]);
      plan_.method = solution.method;
    }
    return diagnostics_.ok();
  }

  // First fit over lanes in time order: a free lane of the same size, else one that is proven large enough, else a new one.
  bool place_lanes(const Job& job, std::vector<Dim>* offsets, Dim* total) {
    struct Lane {
      Dim size;
      uint32_t free_from = 0;
      std::vector<size_t> members;
    };
    plan_.symbolic = true;
    plan_.method = "lanes";
    std::vector<Lane> lanes;
    std::vector<Dim> sizes;
    for (Dim d : job.sizes) sizes.push_back(aligned(d));
    for (size_t i = 0; i < sizes.size(); ++i) {
      Lane* best = nullptr;
      constexpr size_t kTried = 256;  // bounds the search in graphs with very many lanes
      for (size_t k = 0; k < std::min(lanes.size(), kTried); ++k) {
        Lane& lane = lanes[lanes.size() - 1 - k];
        if (lane.free_from > job.first[i]) continue;
        if (lane.size == sizes[i]) {
          best = &lane;
          break;
        }
        if (!best && dims_.at_least(dims_.sub(lane.size, sizes[i]), 0)) best = &lane;
      }
      if (!best) best = &lanes.emplace_back(Lane{sizes[i], 0, {}});
      best->free_from = job.last[i] == kForever ? kForever : job.last[i] + 1;
      best->members.push_back(i);
    }
    Dim offset(0);
    for (const Lane& lane : lanes) {
      for (size_t i : lane.members) (*offsets)[i] = offset;
      offset = dims_.add(offset, lane.size);
    }
    *total = offset;
    return true;
  }

  void spread_to_views() {
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        Slot& s = plan_.slot[v.raw];
        if (!s.view && owner_[v.raw] == v) continue;
        const Slot& base = plan_.slot[(s.view ? s.root : owner_[v.raw]).raw];
        s.region = base.region;
        s.index = base.index;
        s.offset = dims_.add(base.offset, views_.offset[v.raw]);
        if (!s.view) s.root = owner_[v.raw];
      }
  }

  void account(const Job& job) {
    auto size = [](Dim d) { return d.is_static() ? static_cast<uint64_t>(d.size()) : 0; };
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const Slot& s = plan_.slot[g_.result(n, r).raw];
        if (s.region != Region::Activations) continue;
        plan_.unshared += size(s.size);
        if (s.view) plan_.saved_by_views += size(s.size);
        else if (s.in_place) plan_.saved_in_place += size(s.size);
      }
    uint64_t owned = 0;
    for (size_t i = 0; i < job.sizes.size(); ++i)
      if (job.owners[i].valid()) owned += size(job.sizes[i]);
    plan_.saved_by_reuse = owned - std::min(owned, size(plan_.arena_size));
  }

  Graph& g_;
  DimTable& dims_;
  const std::vector<GraphPlan>& plans_;
  const SymbolRanges& extents_;
  const PlanOptions& options_;
  Diagnostics& diagnostics_;
  GraphPlan plan_;
  ViewRoots views_;
  std::vector<uint32_t> last_use_;  // by root value
  std::vector<ValueId> owner_;      // whose bytes a result overwrites
};

// Bodies before the graphs that own them.
std::vector<GraphId> bodies_first(const Module& m) {
  std::vector<GraphId> order, stack{GraphId(0)};
  while (!stack.empty()) {
    const Graph& g = m.graph(stack.back());
    order.push_back(stack.back());
    stack.pop_back();
    for (NodeId n : g.nodes())
      for (GraphId b : g.bodies(n)) stack.push_back(b);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

std::optional<LirModule> plan_lir(std::unique_ptr<Module> module, const PlanOptions& options, Diagnostics& diagnostics) {
  LirModule lir;
  lir.alignment = options.alignment;
  lir.plans.resize(module->graph_count());
  uint64_t weights_size = 0;
  const std::vector<GraphId> order = bodies_first(*module);
  for (GraphId id : order) module->graph(id).compact();
  lir.extents = find_extents(*module, options.bounds);
  const SymbolRanges extents = extent_ranges(lir.extents);
  for (GraphId id : order) {
    GraphPlanner planner(module->graph(id), lir.plans, extents, options, diagnostics);
    if (!planner.run(&weights_size)) return std::nullopt;
    lir.plans[id.raw] = planner.take();
  }
  module->stage = Stage::Lir;
  lir.module = std::move(module);
  return lir;
}

}  // namespace rlxc
