#include "memory/plan_lir.h"

#include <algorithm>
#include <set>

#include "analysis/cost.h"
#include "analysis/data_dependent_dims.h"
#include "analysis/exchange.h"
#include "analysis/phases.h"
#include "analysis/views.h"
#include "ir/mesh.h"
#include "memory/checkpoint.h"
#include "memory/liveness.h"
#include "memory/patches.h"
#include "memory/place_arena.h"
#include "memory/prepack.h"
#include "memory/rematerialise.h"
#include "memory/schedule_for_memory.h"
#include "memory/states.h"
#include "memory/verify_contents.h"

namespace rlxc {
namespace {

constexpr uint64_t kLeastUnit = 64;  // bytes

// The options, plus facts of the model.
struct Request : PlanOptions {
  std::span<const State> states;
  int64_t lanes = 0;  // of assign_layouts
};

// Plans one graph for one order of its nodes.
class GraphPlanner {
 public:
  GraphPlanner(Graph& g, const std::vector<GraphPlan>& plans, const SymbolRanges& extents, const Request& options,
               Diagnostics& diagnostics)
      : g_(g), dims_(g.module().dims), plans_(plans), extents_(extents), options_(options), diagnostics_(diagnostics) {}

  bool run(std::vector<NodeId> schedule, GraphLayouts layouts, std::vector<Phase> phase, uint64_t* weights_size) {
    plan_.schedule = std::move(schedule);
    plan_.layouts = std::move(layouts);
    plan_.phase = std::move(phase);
    index_nodes();
    liveness_ = derive_liveness(g_, plan_);
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) widen(g_.result(n, r));
    set_views();
    place_boundary(weights_size);
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; plan_.phase[n.raw] == Phase::Prologue && r < g_.result_count(n); ++r)
        if (const Slot& s = plan_.slot[g_.result(n, r).raw]; !s.view && s.region == Region::None && s.size != Dim(0))
          set_region(g_.result(n, r), Region::Packed, 0);
    for (const State& s : states())
      if (const ValueId v = g_.outputs()[s.output]; is_whole(v))
        liveness_.replaces[plan_.layouts.root[v.raw].raw] = g_.result(g_.inputs()[s.input]);
    concat_in_place(g_, plan_, liveness_, options_.in_place, plans_, options_.alignment);
    if (options_.in_place) overwrite_in_place(g_, plan_, liveness_);
    if (!settle_states()) return false;
    const Buffers activations = buffers_of(g_, plan_, liveness_, plans_, options_.alignment);
    if (!place(activations)) return false;
    propagate_to_aliases();
    account(activations);
    return true;
  }

  std::optional<std::vector<NodeId>> better_order() const {
    GraphPlan before = plan_;
    for (Slot& s : before.slot)
      if (s.region == Region::Activations) s.region = Region::None;
    return order_for_memory(g_, before, liveness_, plans_);
  }

  GraphPlan take() { return std::move(plan_); }

 private:
  // Gives each element at least `element_bytes` bytes: slots grow, and offsets of views scale. Weights keep their size.
  void widen(ValueId v) {
    const OpKind maker = g_.op(g_.def(plan_.layouts.root[v.raw]));
    const int64_t width = bits(g_.dtype(v));
    if (width == 0 || options_.element_bytes == 1 || 8 * options_.element_bytes <= width || maker == OpKind::Param ||
        maker == OpKind::Constant)
      return;
    const Dim factor(8 * options_.element_bytes / width);
    plan_.slot[v.raw].size = dims_.mul(plan_.slot[v.raw].size, factor);
    plan_.layouts.offset[v.raw] = dims_.mul(plan_.layouts.offset[v.raw], factor);
  }

  Dim bytes(ValueId v) { return largest(dims_, dense_bytes(dims_, g_.type(v)), extents_); }

  void index_nodes() {
    plan_.step.assign(g_.node_capacity(), 0);
    plan_.body_offset.assign(g_.node_capacity(), Dim(0));
    plan_.slot.resize(g_.value_capacity());
    uint32_t step = 0;
    for (NodeId n : plan_.schedule) {
      plan_.step[n.raw] = step;
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        Slot& s = plan_.slot[g_.result(n, r).raw];
        s.first_step = s.last_step = step;
        s.size = bytes(g_.result(n, r));
      }
      for (ValueId v : g_.operands(n))
        if (v.valid()) plan_.slot[v.raw].last_step = step;
      ++step;
    }
    for (ValueId v : g_.outputs()) plan_.slot[v.raw].last_step = step;
  }

  void set_views() {
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        Slot& s = plan_.slot[v.raw];
        s.root = plan_.layouts.root[v.raw];
        s.view = s.root != v;
        s.offset = plan_.layouts.offset[v.raw];
      }
  }

  void place_boundary(uint64_t* weights_size) {
    uint32_t index = 0;
    for (NodeId n : g_.inputs()) set_region(g_.result(n), Region::Input, index++);
    for (const State& s : states()) set_region(g_.result(g_.inputs()[s.input]), Region::State, s.output);
    for (NodeId n : plan_.schedule) {
      if (!is_weight(g_.op(n)) && !is_weight_slice(g_, n)) continue;
      Slot& s = plan_.slot[g_.result(n).raw];
      if (is_only_sliced(g_, n)) {
        s.size = Dim(0);  // no device has it whole
        continue;
      }
      set_region(g_.result(n), Region::Weights, 0);
      s.offset = Dim(static_cast<int64_t>(*weights_size));
      const uint64_t size = s.size.is_static() ? static_cast<uint64_t>(s.size.size()) : 0;
      *weights_size += (size + options_.alignment - 1) / options_.alignment * options_.alignment;
    }
    // An output that is a whole buffer is written to the caller's buffer directly; other outputs are copied at the end.
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      const ValueId v = g_.outputs()[i], root = plan_.layouts.root[v.raw];
      const NodeId maker = g_.def(root);
      if (std::ranges::any_of(states(), [&](const State& s) { return s.output == i; })) continue;
      if (plan_.slot[root.raw].region != Region::None || has_trait(g_.op(maker), kLeaf) ||
          plan_.phase[maker.raw] == Phase::Prologue)
        continue;
      if (!is_whole(v)) continue;
      set_region(root, Region::Output, static_cast<uint32_t>(i));
    }
  }

  // Is the value all of its buffer, itself or as a view?
  bool is_whole(ValueId v) {
    const ValueId root = plan_.layouts.root[v.raw];
    return plan_.layouts.offset[v.raw] == Dim(0) && dims_.equal(plan_.slot[v.raw].size, plan_.slot[root.raw].size);
  }

  std::span<const State> states() const { return g_.id().raw == 0 ? options_.states : std::span<const State>(); }

  // The new value of a state is written to the state's buffer if the old value is dead by then; otherwise it is copied at the
  // end.
  bool settle_states() {
    for (const State& s : states()) {
      const ValueId old = g_.result(g_.inputs()[s.input]), v = g_.outputs()[s.output], root = plan_.layouts.root[v.raw];
      const ValueId owner = liveness_.owner[root.raw];
      if (owner != old && plan_.slot[owner.raw].region == Region::State) {
        diagnostics_.error(Code::BadFlag, "--state: the new value of one state is the old value of another",
                           "output " + g_.module().text(g_.output_name(s.output)).quoted());
        return false;
      }
      if (owner != root || !is_whole(v) || plan_.slot[root.raw].region != Region::None ||
          plan_.phase[g_.def(root).raw] == Phase::Prologue)
        continue;
      uint32_t last = 0, first = plan_.step[g_.def(root).raw];
      std::vector<ValueId> made_there;
      for (NodeId n : plan_.schedule)
        for (size_t r = 0; r < g_.result_count(n); ++r) {
          const ValueId each = g_.result(n, r);
          if (liveness_.owner[each.raw] == old) last = std::max(last, liveness_.last_use[each.raw]);
          if (liveness_.owner[each.raw] == root) {
            made_there.push_back(each);
            first = std::min(first, plan_.step[n.raw]);
          }
        }
      if (last >= first) continue;
      for (ValueId each : made_there) liveness_.owner[each.raw] = old;
      liveness_.sharing[root.raw] = Sharing::InPlace;
    }
    return true;
  }

  void set_region(ValueId v, Region region, uint32_t index) {
    plan_.slot[v.raw].region = region;
    plan_.slot[v.raw].index = index;
  }

  bool place(const Buffers& buffers) {
    auto placed =
        place_buffers(dims_, buffers, options_.alignment, options_.max_binding, options_.ranges, options_.verify, diagnostics_);
    if (!placed) return false;
    for (size_t i = 0; i < placed->offsets.size(); ++i) {
      if (buffers.owners[i].valid()) {
        set_region(buffers.owners[i], Region::Activations, 0);
        plan_.slot[buffers.owners[i].raw].offset = placed->offsets[i];
      } else {
        plan_.body_offset[buffers.body_nodes[i].raw] = placed->offsets[i];
      }
    }
    plan_.arena_size = placed->total;
    plan_.symbolic = !placed->is_static;
    plan_.method = placed->method;
    plan_.lower_bound = placed->lower_bound;
    plan_.peak_step = static_cast<uint32_t>(placed->peak.step);
    for (uint32_t b : placed->peak.buffers)
      if (buffers.owners[b].valid()) plan_.peak_values.push_back(buffers.owners[b]);
    return true;
  }

  // Propagates region and offset from owners to roots, then from roots to views.
  void propagate_to_aliases() {
    for (const bool views : {false, true})
      for (NodeId n : plan_.schedule)
        for (size_t r = 0; r < g_.result_count(n); ++r) {
          const ValueId v = g_.result(n, r), root = plan_.layouts.root[v.raw], owner = liveness_.owner[root.raw];
          Slot& s = plan_.slot[v.raw];
          if (s.view != views || (!views && owner == v)) continue;
          const Slot& base = plan_.slot[(views ? root : owner).raw];
          s.region = base.region;
          s.index = base.index;
          s.offset = dims_.add(base.offset, views ? plan_.layouts.offset[v.raw] : liveness_.offset[v.raw]);
          s.root = owner;
          s.in_place = liveness_.sharing[v.raw] == Sharing::InPlace;
          s.part = liveness_.sharing[v.raw] == Sharing::ConcatAlias;
        }
  }

  void account(const Buffers& buffers) {
    auto size = [](Dim d) { return d.is_static() ? static_cast<uint64_t>(d.size()) : 0; };
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const Slot& s = plan_.slot[g_.result(n, r).raw];
        if (s.region != Region::Activations) continue;
        plan_.without_reuse += size(s.size);
        if (s.view) plan_.saved_by_views += size(s.size);
        else if (s.in_place) plan_.saved_in_place += size(s.size);
        else if (s.part) plan_.saved_by_concat_alias += size(s.size);
      }
    uint64_t owned = 0;
    for (size_t i = 0; i < buffers.sizes.size(); ++i)
      if (buffers.owners[i].valid()) owned += size(buffers.sizes[i]);
    plan_.saved_by_reuse = owned - std::min(owned, size(plan_.arena_size));
  }

  Graph& g_;
  DimTable& dims_;
  const std::vector<GraphPlan>& plans_;
  const SymbolRanges& extents_;
  const Request& options_;
  Diagnostics& diagnostics_;
  GraphPlan plan_;
  Liveness liveness_;
};

std::optional<GraphPlan> plan_graph(Graph& g, const std::vector<GraphPlan>& plans, const SymbolRanges& extents,
                                    const Request& options, uint64_t* weights_size, Diagnostics& diagnostics) {
  std::vector<NodeId> nodes;
  for (NodeId n : g.nodes()) nodes.push_back(n);
  uint64_t weights_before = *weights_size;
  GraphLayouts layouts = assign_layouts(g, options.lanes);
  if (options.verify && !verify_layouts(g, layouts, diagnostics)) return std::nullopt;
  std::vector<Phase> phase = derive_phases(g);
  GraphPlanner given(g, plans, extents, options, diagnostics);
  if (!given.run(std::move(nodes), layouts, phase, weights_size)) return std::nullopt;
  auto order = options.reorder ? given.better_order() : std::nullopt;
  GraphPlan plan = given.take();
  plan.given_arena = plan.arena_size;
  if (!order) return plan;
  GraphPlanner reordered(g, plans, extents, options, diagnostics);
  if (!reordered.run(std::move(*order), std::move(layouts), std::move(phase), &weights_before)) return std::nullopt;
  GraphPlan other = reordered.take();
  DimTable& dims = g.module().dims;
  if (!dims.at_least(dims.sub(plan.arena_size, other.arena_size), 0) || plan.arena_size == other.arena_size) return plan;
  other.given_arena = plan.arena_size;
  other.reordered = true;
  return other;
}

void put_in_order(Graph& g, const GraphPlan& plan) {
  for (NodeId n : plan.schedule) g.move_before(n, g.terminator());
}

// The error of an arena beyond --max-arena: where it is largest, and how much less is possible.
void refuse_arena(const Graph& g, const GraphPlan& plan, uint64_t allowed, Diagnostics& diagnostics) {
  constexpr size_t kShown = 3;
  std::vector<ValueId> values = plan.peak_values;
  const auto bytes = [&](ValueId v) { return plan.slot[v.raw].size.is_static() ? plan.slot[v.raw].size.size() : 0; };
  std::ranges::stable_sort(values, std::greater(), bytes);
  std::string list;
  for (size_t i = 0; i < values.size() && i < kShown; ++i) {
    const ValueId v = values[i];
    const ForeignText name = g.value_name(v).valid() ? g.module().text(g.value_name(v)) : g.label(g.def(v));
    list += (list.empty() ? "" : ", ") + name.quoted() + " " + text(g.type(v), g.module().dims) + " (" +
            std::to_string(bytes(v)) + " bytes)";
  }
  if (values.size() > kShown) list += " and " + std::to_string(values.size() - kShown) + " more";
  std::string where;
  if (plan.peak_step < plan.schedule.size())
    where = "step " + std::to_string(plan.peak_step) + ", node " + g.label(plan.schedule[plan.peak_step]).quoted() + " (" +
            std::string(kind_name(g.op(plan.schedule[plan.peak_step]))) + ")";
  std::string message =
      "the arena takes " + std::to_string(plan.arena_size.size()) + " bytes, --max-arena allows " + std::to_string(allowed);
  if (!list.empty()) message += "; most are live here: " + list;
  diagnostics.error(Code::TooLarge, std::move(message), std::move(where),
                    "the least arena that was found takes " + std::to_string(plan.arena_size.size()) + " bytes (--max-arena " +
                        std::to_string(plan.arena_size.size()) +
                        "); smaller sizes (--bind, --range) or a lower --precision take less");
}

// Bytes of the weights that only load-time nodes read, and of the largest one. Hosts load them in turn.
std::pair<uint64_t, uint64_t> released_weight_bytes(const Graph& g, const GraphPlan& plan) {
  uint64_t sum = 0, largest = 0;
  for (NodeId n : g.nodes()) {
    if (!is_weight_slice(g, n) && (g.op(n) != OpKind::Param || is_only_sliced(g, n))) continue;
    const auto at_load = [&](Graph::Use use) {
      return use.user != g.terminator() && plan.phase[use.user.raw] == Phase::Prologue && !is_weight_slice(g, use.user);
    };
    if (g.use_count(g.result(n)) == 0 || !std::ranges::all_of(g.uses(g.result(n)), at_load)) continue;
    const uint64_t bytes = byte_size(g.type(g.result(n))).value_or(0);
    sum += bytes;
    largest = std::max(largest, bytes);
  }
  return {sum, largest};
}

// Leaves the packed region what weights and arena leave of --device-memory. A device of a pipeline has the weights of its stage.
bool share_device_memory(const Module& m, const GraphPlan& plan, uint64_t weights_size, Request* options, Diagnostics& d) {
  if (options->device_memory == 0) return true;
  weights_size = std::min(weights_size, device_weight_bytes(m.main()));
  const auto [released, largest] = released_weight_bytes(m.main(), plan);
  weights_size -= std::min(weights_size, released);
  const uint64_t arena = plan.arena_size.is_static() ? static_cast<uint64_t>(plan.arena_size.size()) : 0;
  const uint64_t beside = std::max(arena, largest);  // the arena is allocated after the load
  if (weights_size <= options->device_memory && beside <= options->device_memory - weights_size) {
    const uint64_t room = options->device_memory - weights_size - beside;
    options->max_packed = std::min(options->max_packed.value_or(room), room);
    return true;
  }
  d.error(Code::TooLarge,
          "weights take " + std::to_string(weights_size) + " bytes" +
              (largest > 0 ? ", " + std::to_string(largest) + " more while they are loaded," : "") + " and activations " +
              std::to_string(arena) + ", --device-memory allows " + std::to_string(options->device_memory),
          {}, mesh_of(m) ? "a mesh of more devices divides them" : "--mesh divides them over several devices");
  return false;
}

bool exceeds(const GraphPlan& plan, uint64_t limit) {
  return !plan.symbolic && static_cast<uint64_t>(plan.arena_size.size()) > limit;
}

// Rematerialises cheap values while the arena is too large and that shrinks it: many values at a time, then fewer. When no value
// is left, copies parts of values instead.
std::optional<GraphPlan> shrink_by_values(Graph& g, GraphPlan plan, const std::vector<GraphPlan>& plans,
                                          const SymbolRanges& extents, const Request& options, uint64_t weights_size,
                                          Diagnostics& diagnostics) {
  constexpr size_t kMostAtATime = 64;
  constexpr uint64_t kAim = 95;  // target per round in per cent of the arena; lowers the highest peaks first
  constexpr int kMostPlans = 100;
  std::set<ValueId> refused[2];  // by `Instead`
  Instead how = Instead::Compute;
  size_t at_a_time = kMostAtATime;
  put_in_order(g, plan);
  for (int i = 0; exceeds(plan, options.max_arena) && i < kMostPlans; ++i) {
    const uint64_t aim = static_cast<uint64_t>(plan.arena_size.size()) / 100 * kAim;
    std::set<ValueId>& refused_here = refused[static_cast<size_t>(how)];
    const ComputedAgain made = compute_again(g, plan, how, {.arena = aim, .most = at_a_time}, refused_here);
    if (made.values.empty()) {
      if (how == Instead::CopyParts) break;
      how = Instead::CopyParts;
      at_a_time = kMostAtATime;
      continue;
    }
    uint64_t weights = weights_size;
    auto with_copies = plan_graph(g, plans, extents, options, &weights, diagnostics);
    if (!with_copies) return std::nullopt;
    if (with_copies->arena_size.size() < plan.arena_size.size()) {
      with_copies->computed_again = plan.computed_again + static_cast<uint32_t>(made.copies.size());
      plan = std::move(*with_copies);
      put_in_order(g, plan);
      at_a_time = kMostAtATime;
      how = Instead::Compute;
    } else {
      undo(g, made);
      if (made.values.size() == 1) refused_here.insert(made.values[0]);
      else at_a_time = std::max<size_t>(made.values.size() / 4, 1);
    }
  }
  return plan;
}

// Computes segments of the program again: the fewest with which the arena fits, or as many as make it smallest.
std::optional<GraphPlan> shrink_by_segments(Graph& g, GraphPlan plan, const std::vector<GraphPlan>& plans,
                                            const SymbolRanges& extents, const Request& options, uint64_t weights_size,
                                            Diagnostics& diagnostics) {
  constexpr uint64_t kMostSegments = 256;
  const auto plan_with = [&](const ComputedAgain& made) {
    uint64_t weights = weights_size;
    auto with_copies = plan_graph(g, plans, extents, options, &weights, diagnostics);
    if (with_copies) with_copies->computed_again = plan.computed_again + static_cast<uint32_t>(made.copies.size());
    return with_copies;
  };
  put_in_order(g, plan);
  int64_t smallest = plan.arena_size.size();
  uint64_t best = 0;
  for (uint64_t segments = 2; segments <= kMostSegments && static_cast<uint64_t>(smallest) > options.max_arena; segments *= 2) {
    const ComputedAgain made = compute_segments_again(g, plan, segments);
    const auto with_copies = plan_with(made);
    undo(g, made);
    if (!with_copies) return std::nullopt;
    if (with_copies->arena_size.size() >= smallest) continue;
    smallest = with_copies->arena_size.size();
    best = segments;
  }
  if (best == 0) return plan;
  auto shrunk = plan_with(compute_segments_again(g, plan, best));
  if (shrunk) put_in_order(g, *shrunk);
  return shrunk;
}

// Computes values again, contractions included, until the arena has `aim` bytes or this takes `share` of the time of the graph.
// Keeps the plan if that leaves more than `most` bytes.
std::optional<GraphPlan> shrink_by_time(Graph& g, GraphPlan plan, uint64_t aim, uint64_t most, double share,
                                        const std::vector<GraphPlan>& plans, const SymbolRanges& extents, const Request& options,
                                        uint64_t weights_size, Diagnostics& diagnostics) {
  double work_ns = 0;
  for (NodeId n : plan.schedule) work_ns += launch_time_ns(node_cost(g, n), Machine{});
  put_in_order(g, plan);
  const ComputedAgain made =
      compute_again(g, plan, Instead::Compute, {.arena = aim, .work_ns = share * work_ns, .contractions = true});
  if (made.values.empty()) return plan;
  auto with_copies = plan_graph(g, plans, extents, options, &weights_size, diagnostics);
  if (!with_copies) return std::nullopt;
  if (exceeds(*with_copies, most)) {
    undo(g, made);
    return plan;
  }
  with_copies->computed_again = plan.computed_again + static_cast<uint32_t>(made.copies.size());
  put_in_order(g, *with_copies);
  return with_copies;
}

// Recomputes values that a gradient reads. Recomputation takes at most a small share of the graph's time. The share is larger if
// the arena is still large and --max-arena does not limit it.
std::optional<GraphPlan> shrink_gradient(Graph& g, GraphPlan plan, const std::vector<GraphPlan>& plans,
                                         const SymbolRanges& extents, const Request& options, uint64_t weights_size,
                                         Diagnostics& diagnostics) {
  constexpr double kShare = 0.02, kShareOfLarge = 0.14;
  constexpr uint64_t kLarge = uint64_t{5} << 28;  // 1.25 GiB
  const auto arena = static_cast<uint64_t>(plan.arena_size.size());
  if (arena == 0) return plan;
  auto shrunk =
      shrink_by_time(g, std::move(plan), arena / 2, arena - 1, kShare, plans, extents, options, weights_size, diagnostics);
  if (!shrunk || options.max_arena > 0 || !exceeds(*shrunk, kLarge)) return shrunk;
  const auto still = static_cast<uint64_t>(shrunk->arena_size.size());
  return shrink_by_time(g, std::move(*shrunk), kLarge, still - 1, kShareOfLarge, plans, extents, options, weights_size,
                        diagnostics);
}

// Meets the limit with contractions chosen one by one, if that is possible at less than the cost of whole segments.
std::optional<GraphPlan> shrink_by_contractions(Graph& g, GraphPlan plan, const std::vector<GraphPlan>& plans,
                                                const SymbolRanges& extents, const Request& options, uint64_t weights_size,
                                                Diagnostics& diagnostics) {
  constexpr double kShare = 0.2;
  constexpr uint64_t kAim = 97;  // per cent of the limit: placement needs a little more than what is live
  return shrink_by_time(g, std::move(plan), options.max_arena / 100 * kAim, options.max_arena, kShare, plans, extents, options,
                        weights_size, diagnostics);
}

using Shrink = std::optional<GraphPlan> (*)(Graph&, GraphPlan, const std::vector<GraphPlan>& plans, const SymbolRanges& extents,
                                            const Request&, uint64_t weights_size, Diagnostics&);

// Tries one way after another while the arena is too large.
std::optional<GraphPlan> shrink(Graph& g, GraphPlan plan, std::initializer_list<Shrink> ways, const std::vector<GraphPlan>& plans,
                                const SymbolRanges& extents, const Request& options, uint64_t weights_size,
                                Diagnostics& diagnostics) {
  for (const Shrink by : ways) {
    if (by != shrink_gradient && !exceeds(plan, options.max_arena)) continue;
    auto smaller = by(g, std::move(plan), plans, extents, options, weights_size, diagnostics);
    if (!smaller) return std::nullopt;
    plan = std::move(*smaller);
  }
  erase_unread(g, plan);
  g.compact();  // drops undone copies and renumbers nodes in schedule order
  const uint32_t computed_again = plan.computed_again;
  auto compacted = plan_graph(g, plans, extents, options, &weights_size, diagnostics);
  if (compacted) compacted->computed_again = computed_again;
  return compacted;
}

// A module of which the main graph is planned anew.
struct Replanned {
  std::unique_ptr<Module> module;
  GraphPlan plan;
  std::vector<PatchedSegment> segments;
};

// Runs segments of the main graph in parts, with which the limit is met in the least time; else those with which the arena is
// smallest. The module is copied, because estimates of what segments need are not exact. Nullopt without module: no segments
// help.
std::optional<Replanned> shrink_by_patches(const Module& m, const GraphPlan& plan, const std::vector<GraphPlan>& plans,
                                           const SymbolRanges& extents, const Request& options, uint64_t weights_size,
                                           Diagnostics& diagnostics) {
  constexpr int kMostPlans = 8;
  Replanned best;
  const auto arena = [](const GraphPlan& p) { return static_cast<uint64_t>(p.arena_size.size()); };
  uint64_t smallest = arena(plan);
  PatchSearch search(m.main(), plan, options.lanes > 1);
  // Where the limit cannot be met, what is next to it is tried.
  const auto find = [&](uint64_t most) {
    std::vector<Segment> found;
    for (; found.empty() && most < smallest; most += most / 16 + 1) found = search.segments(most);
    return found;
  };
  uint64_t aim = options.max_arena;
  for (int i = 0; i < kMostPlans && smallest > options.max_arena; ++i) {
    const std::vector<Segment> segments = find(aim);
    if (segments.empty()) break;
    Replanned made{m.copy(), {}, {}};
    put_in_order(made.module->main(), plan);
    auto report = run_in_patches(made.module->main(), segments);
    if (!report) break;
    made.module->main().compact();
    uint64_t weights = weights_size;
    auto replanned = plan_graph(made.module->main(), plans, extents, options, &weights, diagnostics);
    if (!replanned) return std::nullopt;
    made.plan = std::move(*replanned);
    made.segments = std::move(*report);
    const uint64_t reached = arena(made.plan);
    if (reached < smallest) {
      smallest = reached;
      best = std::move(made);
    }
    if (reached <= options.max_arena) break;
    const uint64_t above = std::max(reached - options.max_arena, options.max_arena / 32);
    if (above >= aim) break;
    aim -= above;
  }
  return best;
}

// Keeps less for gradients, and meets the limit: with cheap values if that is enough, else in parts of rows, else with some
// contractions, else with whole segments, which cost up to the time of the first half.
std::optional<Replanned> shrink_main(std::unique_ptr<Module> m, GraphPlan plan, const std::vector<GraphPlan>& plans,
                                     const SymbolRanges& extents, const Request& options, uint64_t weights_size, bool gradient,
                                     Diagnostics& diagnostics) {
  Replanned best{std::move(m), std::move(plan), {}};
  const auto fits = [&](const Replanned& r) { return options.max_arena == 0 || !exceeds(r.plan, options.max_arena); };
  if (best.plan.symbolic || (!gradient && fits(best))) return best;
  const auto run = [&](Replanned* r, std::initializer_list<Shrink> ways) {
    auto smaller = shrink(r->module->main(), std::move(r->plan), ways, plans, extents, options, weights_size, diagnostics);
    if (smaller) r->plan = std::move(*smaller);
    return smaller.has_value();
  };
  const auto keep = [&](Replanned r) {
    if (fits(r) || r.plan.arena_size.size() < best.plan.arena_size.size()) best = std::move(r);
    return fits(best);
  };
  if (gradient) {
    const bool limited = options.max_arena > 0;
    const bool done =
        limited ? run(&best, {shrink_gradient, shrink_by_values, shrink_by_contractions, shrink_by_segments, shrink_by_values})
                : run(&best, {shrink_gradient});
    return done ? std::optional(std::move(best)) : std::nullopt;
  }
  Replanned values{best.module->copy(), best.plan, {}};
  if (!run(&values, {shrink_by_values})) return std::nullopt;
  if (fits(values)) return values;
  auto patched = shrink_by_patches(*best.module, best.plan, plans, extents, options, weights_size, diagnostics);
  if (patched && best.plan.reordered && !(patched->module && fits(*patched))) {
    // An order that needs less for whole images may need more for parts.
    Request given = options;
    given.reorder = false;
    uint64_t weights = weights_size;
    const auto plan = plan_graph(best.module->main(), plans, extents, given, &weights, diagnostics);
    auto other = plan ? shrink_by_patches(*best.module, *plan, plans, extents, options, weights_size, diagnostics) : std::nullopt;
    if (!other) return std::nullopt;
    if (other->module && (!patched->module || other->plan.arena_size.size() < patched->plan.arena_size.size()))
      patched = std::move(other);
  }
  if (!patched) return std::nullopt;
  if (patched->module && fits(*patched)) return patched;
  for (Replanned* r : {&values, &*patched}) {
    if (!r->module) continue;
    if (!run(r, {shrink_by_values, shrink_by_contractions, shrink_by_segments, shrink_by_values})) return std::nullopt;
    if (keep(std::move(*r))) break;
  }
  return best;
}

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

std::optional<LirModule> plan_lir(std::unique_ptr<Module> module, const PlanOptions& options, Diagnostics& diagnostics,
                                  const PlanInputs& inputs) {
  LirModule lir;
  lir.alignment = options.alignment ? options.alignment : kLeastUnit;
  lir.ranges = options.ranges;
  lir.states = inputs.states;
  const uint64_t unit = std::max(lir.alignment, kLeastUnit);
  lir.max_binding = options.max_binding / unit * unit;
  lir.plans.resize(module->graph_count());
  uint64_t weights_size = 0;
  const std::vector<GraphId> order = bodies_first(*module);
  std::vector<bool> used(module->graph_count());
  for (GraphId id : order) {
    module->graph(id).compact();
    used[id.raw] = true;
  }
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i]) module->graph(GraphId(i)).clear();  // bodies of erased nodes
  lir.extents = find_data_dependent_dims(*module, options.bounds);
  const SymbolRanges extents = data_dependent_ranges(lir.extents);
  Request own{options, lir.states};
  if (inputs.kernels && !inputs.kernels->mapping.workgroups) own.lanes = inputs.kernels->mapping.vector_lanes(sizeof(float));
  own.alignment = lir.alignment;
  own.max_binding = lir.max_binding;
  // A data-dependent dim must be defined before its uses, so graphs with such dims keep their order.
  own.reorder &= lir.extents.empty();
  for (GraphId id : order) {
    const uint64_t weights_before = weights_size;
    auto plan = plan_graph(module->graph(id), lir.plans, extents, own, &weights_size, diagnostics);
    if (!plan) return std::nullopt;
    if (id.raw == 0) {
      auto smaller =
          shrink_main(std::move(module), std::move(*plan), lir.plans, extents, own, weights_before, inputs.gradient, diagnostics);
      if (!smaller) return std::nullopt;
      module = std::move(smaller->module);
      plan = std::move(smaller->plan);
      plan->patched = std::move(smaller->segments);
      if (own.max_arena > 0 && exceeds(*plan, own.max_arena)) {
        refuse_arena(module->main(), *plan, own.max_arena, diagnostics);
        return std::nullopt;
      }
    }
    lir.plans[id.raw] = std::move(*plan);
  }
  if (lir.plans[0].computed_again > 0 || !lir.plans[0].patched.empty())
    lir.extents = find_data_dependent_dims(*module, options.bounds);  // node ids have changed
  lir.packs_known = inputs.kernels.has_value();
  std::optional<codegen::LoweringCache> own_lowerings;
  if (inputs.kernels && !inputs.lowerings) own_lowerings.emplace(*inputs.kernels);
  codegen::LoweringCache* lowerings = own_lowerings ? &*own_lowerings : inputs.kernels ? inputs.lowerings : nullptr;
  if (!share_device_memory(*module, lir.plans[0], weights_size, &own, diagnostics)) return std::nullopt;
  if (!plan_packed(*module, lir.plans, extents, lowerings, own, diagnostics)) return std::nullopt;
  for (size_t i = 0; options.verify && i < lir.plans.size(); ++i)
    if (!verify_contents(module->graph(GraphId(i)), lir.plans[i], diagnostics)) return std::nullopt;
  module->stage = Stage::Lir;
  lir.module = std::move(module);
  return lir;
}

}  // namespace rlxc
