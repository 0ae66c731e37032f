#include "memory/liveness.h"

#include <algorithm>
#include <optional>

#include "analysis/data_dependent_dims.h"
#include "analysis/phases.h"
#include "codegen/lower.h"
#include "ir/graphs.h"
#include "support/checked.h"

namespace rlxc {
namespace {

constexpr uint64_t kConcatWork = 50'000'000;  // bound on nodes visited while concat aliases are tried
constexpr size_t kNearby = 64;                // values from which a part of a concatenation is made

bool is_free(const Graph& g, const GraphPlan& plan, ValueId v) {
  if (plan.slot[v.raw].region == Region::State) return true;
  const NodeId maker = g.def(v);
  return plan.slot[v.raw].region == Region::None && !has_trait(g.op(maker), kLeaf) && plan.phase[maker.raw] != Phase::Prologue;
}

// Returns whether operand i dies in the node and result r can reuse its bytes.
bool can_reuse_operand(const Graph& g, const GraphPlan& plan, const Liveness& liveness, NodeId n, size_t r, size_t i) {
  const ValueId v = g.operand(n, i), result = g.result(n, r);
  if (!v.valid() || !codegen::may_overwrite(g, n, r, i)) return false;
  const ValueId root = plan.layouts.root[v.raw];
  if (!is_free(g, plan, root) || liveness.sharing[root.raw] == Sharing::ConcatAlias) return false;
  if (liveness.last_use[root.raw] != plan.step[n.raw] || plan.layouts.offset[v.raw] != Dim(0) || !plan.layouts.alike(v, result))
    return false;
  if (bits(g.dtype(v)) != bits(g.dtype(result)) || !std::ranges::equal(g.dims(v), g.dims(result)) ||
      plan.slot[root.raw].size != plan.slot[v.raw].size)
    return false;
  const auto operands = g.operands(n);
  for (size_t j = 0; j < operands.size(); ++j)
    if (operands[j].valid() && plan.layouts.root[operands[j].raw] == root &&
        (operands[j] != v || !codegen::may_overwrite(g, n, r, j)))
      return false;
  return true;
}

// Returns whether the result may be written to this buffer. The buffer of a state must not hold another output at the end of a
// run.
bool can_reuse_buffer(const Graph& g, const GraphPlan& plan, const Liveness& liveness, ValueId owner, ValueId result) {
  const Slot& s = plan.slot[owner.raw];
  return s.region != Region::State || liveness.last_use[result.raw] < plan.schedule.size() || g.outputs()[s.index] == result;
}

// Returns whether the operand can be computed directly into the result of its concatenation.
bool can_alias_concat(const Graph& g, const GraphPlan& plan, const Liveness& liveness, ValueId v) {
  return plan.layouts.root[v.raw] == v && plan.slot[v.raw].region == Region::None && is_free(g, plan, v) &&
         liveness.sharing[v.raw] == Sharing::None && !has_trait(g.op(g.def(v)), kBody);
}

bool concatenates_whole_blocks(const Graph& g, const GraphPlan& plan, NodeId n) {
  if (g.op(n) != OpKind::Concat || g.operands(n).size() < 2) return false;
  const ValueId v = g.result(n);
  const auto axis = static_cast<size_t>(g.attrs<AxisAttrs>(n).axis);
  const bool blocked = axis == 1 && plan.layouts.channel_block(v) > 0;
  if (plan.layouts.of(v) && !blocked) return false;
  const auto leading = g.dims(v).first(axis);
  return bits(g.dtype(v)) % 8 == 0 && std::all_of(leading.begin(), leading.end(), [](Dim d) { return d == Dim(1); });
}

// Whether a device may compute its part of an all_gather at the end of the result: hosts then gather the first of several runs,
// which do not reach there, before the rest.
bool gathers_runs(const Graph& g, const GraphPlan& plan, const Liveness& liveness, NodeId n) {
  if (g.op(n) != OpKind::AllGather) return false;
  const ValueId v = g.operand(n, 0), result = g.result(n);
  if (plan.layouts.of(v) || plan.layouts.of(result) || bits(g.dtype(v)) % 8 != 0 || liveness.last_use[v.raw] != plan.step[n.raw])
    return false;
  const auto& a = g.attrs<CollectiveAttrs>(n);
  const auto leading = g.dims(v).first(static_cast<size_t>(a.axis));
  return a.blocks > 1 || std::any_of(leading.begin(), leading.end(), [](Dim d) { return d != Dim(1); });
}

// The bytes of its buffer that a value covers; nullopt: any of them.
struct Bytes {
  uint64_t begin, end;
};
std::optional<Bytes> bytes_in_buffer(const Graph& g, const GraphPlan& plan, ValueId v) {
  const Dim at = plan.layouts.offset[v.raw], size = plan.slot[v.raw].size;
  if (plan.layouts.of(v) || !at.is_static() || !size.is_static() || bits(g.dtype(v)) % 8 != 0) return std::nullopt;
  return Bytes{static_cast<uint64_t>(at.size()), static_cast<uint64_t>(at.size() + size.size())};
}

// Returns a buffer that a concatenation may take over part by part; invalid if there is none. The first part is made of it. It
// has the size of the result. Its bytes are not read after a part is written over them. No other concatenation took it over (in
// `taken`).
ValueId replaced_by_parts(const Graph& g, const GraphPlan& plan, const Liveness& liveness, const std::vector<uint32_t>& taken,
                          NodeId concat) {
  struct Part {
    uint32_t step;
    Bytes bytes;
  };
  std::vector<Part> parts;
  uint64_t at = 0;
  for (ValueId v : g.operands(concat)) {
    const bool part_of_it = liveness.sharing[v.raw] == Sharing::ConcatAlias && liveness.owner[v.raw] == g.result(concat) &&
                            liveness.offset[v.raw] == Dim(static_cast<int64_t>(at));
    if (!part_of_it || !plan.slot[v.raw].size.is_static()) return {};
    const auto size = static_cast<uint64_t>(plan.slot[v.raw].size.size());
    parts.push_back({plan.step[g.def(v).raw], {at, at + size}});
    at += size;
  }
  const auto fits = [&](ValueId root) {
    const NodeId maker = g.def(root);
    if (taken[root.raw] != kForever || !is_free(g, plan, root) || plan.slot[root.raw].region != Region::None ||
        liveness.owner[root.raw] != root || liveness.sharing[root.raw] != Sharing::None || plan.layouts.of(root) ||
        has_trait(g.op(maker), kBody) || plan.slot[root.raw].size != plan.slot[g.result(concat).raw].size)
      return false;
    for (size_t i = 0; i < g.operands(maker).size(); ++i)
      if (codegen::may_overwrite(g, maker, 0, i)) return false;  // it may itself be in the buffer of another
    for (const Part& part : parts)
      if (part.step <= plan.step[maker.raw]) return false;
    // All reads of the root and of its views.
    std::vector<ValueId> views{root};
    for (size_t head = 0; head < views.size(); ++head) {
      const auto read = bytes_in_buffer(g, plan, views[head]);
      for (Graph::Use use : g.uses(views[head])) {
        if (use.user == g.terminator() || has_trait(g.op(use.user), kBody)) return false;
        bool is_view = false;
        for (size_t r = 0; r < g.result_count(use.user); ++r)
          if (const ValueId y = g.result(use.user, r); plan.layouts.root[y.raw] == root) {
            views.push_back(y);
            is_view = true;
          }
        for (const Part& part : parts)
          if (!is_view && plan.step[use.user.raw] >= part.step &&
              (!read || (read->begin < part.bytes.end && part.bytes.begin < read->end)))
            return false;
      }
    }
    return true;
  };
  // Backwards from the first part, to what it was made of.
  std::vector<ValueId> work{g.operand(concat, 0)};
  for (size_t head = 0; head < work.size() && work.size() < kNearby; ++head)
    for (ValueId v : g.operands(g.def(work[head]))) {
      if (!v.valid() || std::ranges::find(work, v) != work.end()) continue;
      if (fits(plan.layouts.root[v.raw])) return plan.layouts.root[v.raw];
      work.push_back(v);
    }
  return {};
}

}  // namespace

uint64_t sample_size(const DimTable& dims, Dim d) {
  if (d.is_static()) return static_cast<uint64_t>(d.size());
  DimBindings bindings;
  for (std::string& s : dims.symbols_of(d)) bindings[std::move(s)] = 64;
  return static_cast<uint64_t>(std::max<int64_t>(dims.evaluate(d, bindings).value_or(0), 0));
}

Liveness derive_liveness(const Graph& g, const GraphPlan& plan) {
  Liveness liveness;
  liveness.last_use.assign(g.value_capacity(), 0);
  liveness.owner.resize(g.value_capacity());
  for (size_t v = 0; v < liveness.owner.size(); ++v) liveness.owner[v] = ValueId(v);
  liveness.offset.resize(g.value_capacity());
  liveness.sharing.resize(g.value_capacity());
  liveness.replaces.resize(g.value_capacity());
  const auto touch = [&](ValueId v, uint32_t step) {
    uint32_t& last = liveness.last_use[plan.layouts.root[v.raw].raw];
    last = std::max(last, step);
  };
  const auto is_prologue = [&](ValueId v) { return is_known_on_load(g, plan.phase, v); };
  for (NodeId n : plan.schedule) {
    const uint32_t step = plan.step[n.raw];
    const bool later = plan.phase[n.raw] != Phase::Prologue;
    for (size_t r = 0; r < g.result_count(n); ++r) touch(g.result(n, r), step);
    // Load-time results that a run reads must survive all runs.
    for (ValueId v : g.operands(n))
      if (v.valid()) touch(v, later && is_prologue(v) ? kForever : step);
  }
  for (ValueId v : g.outputs()) touch(v, is_prologue(v) ? kForever : static_cast<uint32_t>(plan.schedule.size()));
  return liveness;
}

void overwrite_in_place(const Graph& g, const GraphPlan& plan, Liveness& liveness) {
  for (NodeId n : plan.schedule) {
    if (plan.phase[n.raw] == Phase::Prologue) continue;
    std::vector<ValueId> taken;
    // Backwards: later results can reuse fewer operands than the first.
    for (size_t r = g.result_count(n); r-- > 0;) {
      const ValueId result = g.result(n, r);
      if (plan.slot[result.raw].region != Region::None || liveness.owner[result.raw] != result) continue;
      const auto overwrites = [&](size_t i) {
        if (!can_reuse_operand(g, plan, liveness, n, r, i)) return false;
        const ValueId root = plan.layouts.root[g.operand(n, i).raw];
        if (std::ranges::find(taken, root) != taken.end() ||
            !can_reuse_buffer(g, plan, liveness, liveness.owner[root.raw], result))
          return false;
        taken.push_back(root);
        liveness.owner[result.raw] = liveness.owner[root.raw];
        liveness.sharing[result.raw] = Sharing::InPlace;
        return true;
      };
      const ValueId old = liveness.replaces[result.raw];
      const auto holds_old = [&](size_t i) {
        const ValueId v = g.operand(n, i);
        return old.valid() && v.valid() && liveness.owner[plan.layouts.root[v.raw].raw] == old;
      };
      const size_t count = g.operands(n).size();
      bool reads_old = false, done = false;
      for (size_t i = 0; i < count; ++i) reads_old |= holds_old(i);
      const bool is_dead = old.valid() && liveness.last_use[old.raw] < plan.step[n.raw];
      if (is_dead && !reads_old) continue;  // it is made in the buffer of the state
      // A state before anything else: elsewhere its new value would have to be copied.
      for (size_t i = count; reads_old && !done && i-- > 0;) done = holds_old(i) && overwrites(i);
      for (size_t i = 0; !done && i < count; ++i) done = !holds_old(i) && overwrites(i);
    }
  }
}

Buffers buffers_of(const Graph& g, const GraphPlan& plan, const Liveness& liveness, const std::vector<GraphPlan>& plans,
                   uint64_t alignment) {
  DimTable& dims = g.module().dims;
  std::vector<uint32_t> first(g.value_capacity(), kForever), last(g.value_capacity(), 0);
  for (NodeId n : plan.schedule)
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r), owner = liveness.owner[v.raw];
      if (plan.layouts.root[v.raw] != v) continue;
      first[owner.raw] = std::min(first[owner.raw], plan.step[n.raw]);
      last[owner.raw] = std::max(last[owner.raw], liveness.last_use[v.raw]);
    }
  const auto end = static_cast<uint32_t>(plan.schedule.size());
  Buffers out;
  for (NodeId n : plan.schedule) {
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      const Slot& s = plan.slot[v.raw];
      if (s.view || s.region != Region::None || liveness.owner[v.raw] != v || s.size == Dim(0)) continue;
      if (plan.phase[n.raw] == Phase::Prologue) continue;
      out.owners.push_back(v);
      out.body_nodes.emplace_back();
      out.first.push_back(first[v.raw]);
      out.last.push_back(std::min(last[v.raw], end));
      out.sizes.push_back(s.size);
    }
    Dim body_bytes(0);
    const Dim unit(static_cast<int64_t>(alignment));
    if (runs_bodies(g, n))
      for (GraphId b : g.bodies(n))
        body_bytes = dims.add(body_bytes, dims.mul(dims.ceil_div(plans[b.raw].arena_size, unit), unit));
    if (body_bytes == Dim(0)) continue;
    out.owners.emplace_back();
    out.body_nodes.push_back(n);
    out.first.push_back(plan.step[n.raw]);
    out.last.push_back(plan.step[n.raw]);
    out.sizes.push_back(body_bytes);
  }
  return out;
}

namespace {

// The peaks of live bytes of one plan as its values share buffers in different ways.
class Peaks {
 public:
  Peaks(const Graph& g, const GraphPlan& plan, const std::vector<GraphPlan>& plans, uint64_t alignment)
      : first_(g.value_capacity()), last_(g.value_capacity()), change_(plan.schedule.size() + 2) {
    Liveness apart;
    apart.last_use.resize(g.value_capacity());
    for (size_t v = 0; v < g.value_capacity(); ++v) apart.owner.push_back(ValueId(v));
    const Buffers all = buffers_of(g, plan, apart, plans, alignment);
    for (size_t i = 0; i < all.sizes.size(); ++i)
      buffers_.push_back(
          {all.owners[i], all.first[i], align_up(sample_size(g.module().dims, all.sizes[i]), alignment).value_or(0)});
    for (NodeId n : plan.schedule)
      for (size_t r = 0; r < g.result_count(n); ++r)
        if (const ValueId v = g.result(n, r); plan.layouts.root[v.raw] == v) roots_.push_back({v, plan.step[n.raw]});
  }

  uint64_t peak(const Liveness& liveness) {
    std::ranges::fill(first_, kForever);
    std::ranges::fill(last_, 0);
    for (const auto& [v, step] : roots_) {
      const ValueId owner = liveness.owner[v.raw];
      first_[owner.raw] = std::min(first_[owner.raw], step);
      last_[owner.raw] = std::max(last_[owner.raw], liveness.last_use[v.raw]);
    }
    std::ranges::fill(change_, 0);
    const auto end = static_cast<uint32_t>(change_.size() - 2);
    for (const Buffer& b : buffers_) {
      if (b.owner.valid() && liveness.owner[b.owner.raw] != b.owner) continue;
      change_[b.owner.valid() ? first_[b.owner.raw] : b.step] += b.bytes;
      change_[(b.owner.valid() ? std::min(last_[b.owner.raw], end) : b.step) + 1] -= b.bytes;
    }
    uint64_t live = 0, most = 0;
    for (uint64_t c : change_) most = std::max(most, live += c);
    return most;
  }

 private:
  // A value that may have a buffer, or the arena of the bodies of a node (invalid), and its step.
  struct Buffer {
    ValueId owner;
    uint32_t step;
    uint64_t bytes;
  };
  struct Root {
    ValueId value;
    uint32_t step;
  };
  std::vector<Buffer> buffers_;
  std::vector<Root> roots_;
  std::vector<uint32_t> first_, last_;  // by owner
  std::vector<uint64_t> change_;        // of the live bytes, by step, modulo 2^64
};

}  // namespace

void concat_in_place(const Graph& g, const GraphPlan& plan, Liveness& liveness, bool in_place,
                     const std::vector<GraphPlan>& plans, uint64_t alignment) {
  DimTable& dims = g.module().dims;
  std::vector<NodeId> joins;
  for (NodeId n : plan.schedule)
    if ((concatenates_whole_blocks(g, plan, n) || gathers_runs(g, plan, liveness, n)) && plan.phase[n.raw] != Phase::Prologue)
      joins.push_back(n);
  if (joins.empty()) return;
  Peaks peaks(g, plan, plans, alignment);
  const auto peak_with = [&](Liveness trial) {
    if (in_place) overwrite_in_place(g, plan, trial);
    return peaks.peak(trial);
  };
  std::vector<uint32_t> taken(g.value_capacity(), kForever);  // the first step that writes to a buffer that was taken over
  uint64_t peak = peak_with(liveness), work = kConcatWork;
  // Results before their operands, which may be concatenations themselves.
  for (auto n = joins.rbegin(); n != joins.rend() && work > plan.schedule.size(); ++n, work -= plan.schedule.size()) {
    const ValueId result = g.result(*n), owner = liveness.owner[result.raw];
    if (plan.layouts.root[result.raw] != result) continue;
    // Parts of a result that is itself a part would be written before the steps that were looked at.
    if (owner != result && taken[owner.raw] != kForever) continue;
    Liveness trial = liveness;
    Dim at = liveness.offset[result.raw];
    if (g.op(*n) == OpKind::AllGather)
      at = dims.add(at, dims.sub(plan.slot[result.raw].size, plan.slot[g.operand(*n, 0).raw].size));
    bool any = false;
    for (ValueId v : g.operands(*n)) {
      if (dense_bytes(dims, g.type(v)) != plan.slot[v.raw].size) break;  // the next operand begins at a data-dependent offset
      if (can_alias_concat(g, plan, trial, v) && taken[v.raw] == kForever && trial.last_use[v.raw] < taken[owner.raw]) {
        trial.owner[v.raw] = owner;
        trial.offset[v.raw] = at;
        trial.sharing[v.raw] = Sharing::ConcatAlias;
        trial.last_use[v.raw] = std::max(trial.last_use[v.raw], trial.last_use[result.raw]);
        trial.last_use[owner.raw] = std::max(trial.last_use[owner.raw], trial.last_use[v.raw]);  // prevents overwriting
        any = true;
      }
      at = dims.add(at, plan.slot[v.raw].size);
    }
    if (!any) continue;
    ValueId old;
    if (g.op(*n) == OpKind::Concat && owner == result && taken[result.raw] == kForever &&
        plan.slot[result.raw].region == Region::None) {
      old = replaced_by_parts(g, plan, trial, taken, *n);
      if (old.valid()) {
        trial.owner[result.raw] = old;
        trial.sharing[result.raw] = Sharing::InPlace;
        for (ValueId v : g.operands(*n)) trial.owner[v.raw] = old;
        trial.last_use[old.raw] = std::max(trial.last_use[old.raw], trial.last_use[result.raw]);
      }
    }
    const uint64_t joined = peak_with(trial);
    if (joined > peak) continue;
    peak = joined;
    liveness = std::move(trial);
    for (ValueId v : g.operands(*n))
      if (old.valid()) taken[old.raw] = std::min(taken[old.raw], plan.step[g.def(v).raw]);
  }
}

}  // namespace rlxc
