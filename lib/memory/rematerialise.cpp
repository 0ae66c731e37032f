#include "memory/rematerialise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <tuple>

#include "analysis/cost.h"
#include "ir/builder.h"

namespace rlxc {
namespace {

constexpr size_t kMostNodes = 6;  // limit on nodes copied for one value
constexpr uint32_t kCheap = kElementwise | kMovement | kReduction | kNormTrait;
constexpr uint32_t kNeverCopied = kBody | kLeaf | kImpure | kSequenceOp | kCollective;

uint64_t size_of(const Slot& s) { return s.size.is_static() ? static_cast<uint64_t>(s.size.size()) : 0; }

// The copies for one value, and their gain.
struct Choice {
  ValueId value;
  uint32_t from = 0, to = 0;   // the gap: steps of the readers before and after it
  std::vector<NodeId> nodes;   // to copy, operands before users
  std::vector<ValueId> read;   // values that the copies read
  std::vector<ValueId> parts;  // views to copy before the gap instead, so that the value dies at `from`
  double bytes_saved = 0, elements = 0;
  double work_ns = 0;  // estimated time of the copies
  bool by_time = false;

  double gain() const { return bytes_saved / (by_time ? work_ns : elements); }
};

// A gap in the reads of a value.
struct Gap {
  double gain;
  size_t order;  // of equal gains, the first is taken
  ValueId value;
  uint32_t from, to;

  bool operator<(const Gap& o) const { return std::tuple(gain, o.order) < std::tuple(o.gain, order); }
};

class Recomputation {
 public:
  Recomputation(Graph& g, const GraphPlan& plan, const Allowance& allowed, const std::set<ValueId>& refused)
      : g_(g),
        plan_(plan),
        limit_(allowed.arena),
        contractions_(allowed.contractions),
        load_(plan.schedule.size() + 2),
        reads_(g.value_capacity()),
        taken_(g.value_capacity()) {
    for (ValueId v : refused) taken_[v.raw] = true;
    for (NodeId n : plan.schedule) {
      for (ValueId v : g.operands(n))
        if (v.valid() && !(g.result_count(n) > 0 && slot(g.result(n)).view)) reads_[content(v).raw].push_back(plan.step[n.raw]);
    }
    const auto end = static_cast<uint32_t>(plan.schedule.size());
    for (ValueId v : g.outputs()) {
      reads_[content(v).raw].push_back(end);
      taken_[content(v).raw] = true;
    }
    std::vector<std::pair<uint32_t, uint32_t>> live_ranges(g.value_capacity(), {~0u, 0});
    for (NodeId n : plan.schedule)
      for (size_t r = 0; r < g.result_count(n); ++r) {
        const ValueId v = g.result(n, r), owner = slot(v).root.valid() ? slot(v).root : v;
        if (slot(v).region != Region::Activations) continue;
        auto& [first, last] = live_ranges[owner.raw];
        first = std::min(first, plan.step[n.raw]);
        last = std::max({last, plan.step[n.raw], last_read(content(v))});
      }
    for (size_t v = 0; v < live_ranges.size(); ++v)
      for (uint32_t t = live_ranges[v].first; t <= live_ranges[v].second && t < load_.size(); ++t)
        load_[t] += size_of(plan.slot[v]);
    find_hot();
  }

  // All gaps that are worth closing, the best on top.
  std::priority_queue<Gap> gaps(Instead how) const {
    std::priority_queue<Gap> all;
    for (NodeId n : plan_.schedule) {
      if (hot_.empty() || plan_.step[n.raw] > hot_.back()) continue;
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        uint32_t before = plan_.step[n.raw];
        for (uint32_t after : reads_[v.raw]) {
          if (const auto c = choice(how, v, before, after)) all.push({c->gain(), all.size(), v, before, after});
          before = after;
        }
      }
    }
    return all;
  }

  std::optional<Choice> choice(Instead how, ValueId v, uint32_t from, uint32_t to) const {
    const Slot& s = slot(v);
    if (taken_[v.raw] || s.region != Region::Activations || s.view || s.part) return std::nullopt;
    return how == Instead::CopyParts ? parts(v, from, to) : computed(v, from, to);
  }

  void apply(const Choice& c, ComputedAgain* out) {
    std::vector<ValueId> aliases;
    const std::vector<Graph::Use> late = late_uses(c.value, c.to, &aliases);
    const NodeId reader = c.parts.empty() ? plan_.schedule[c.to] : g_.next(plan_.schedule[c.from]);
    std::map<ValueId, ValueId> copied;
    for (NodeId n : c.nodes) copy(n, reader, &copied, out);
    for (ValueId v : c.parts) copied[v] = copy_part(v, reader, out);
    for (const Graph::Use use : late) {
      const ValueId before = g_.operand(use.user, use.index);
      out->edits.push_back({use.user, use.index, before});
      g_.set_operand(use.user, use.index, in_copy(before, reader, &copied, out));
    }
    set_unread_views_aside(aliases);
    out->values.push_back(c.value);
    taken_[c.value.raw] = true;
    const uint32_t last = last_read(c.value);
    std::vector<uint32_t>& reads = reads_[c.value.raw];
    reads.erase(std::ranges::lower_bound(reads, c.to), reads.end());
    change(c.from + 1, c.parts.empty() ? c.to : last + 1, -static_cast<int64_t>(size_of(slot(c.value))));
    for (ValueId v : c.parts) change(c.from + 1, last + 1, static_cast<int64_t>(size_of(slot(v))));
    for (ValueId u : c.read) {
      taken_[u.raw] = true;  // until the next plan
      if (const uint32_t last = last_read(u); last < c.to) {
        if (slot(u).region == Region::Activations) change(last + 1, c.to + 1, static_cast<int64_t>(size_of(slot(u))));
        reads_[u.raw].push_back(c.to);
      }
    }
    find_hot();
  }

 private:
  const Slot& slot(ValueId v) const { return plan_.slot[v.raw]; }
  uint32_t last_read(ValueId v) const { return reads_[v.raw].empty() ? 0 : reads_[v.raw].back(); }
  bool may_copy(ValueId v) const {
    const NodeId n = g_.def(v);
    if (is_residual_norm(g_.op(n))) return v == g_.result(n);
    if (has_trait(g_.op(n), kNeverCopied) || g_.result_count(n) != 1) return false;
    return has_trait(g_.op(n), kBlas) ? contractions_ : has_trait(g_.op(n), kCheap);
  }

  // The value that a view aliases in the graph, regardless of buffer sharing.
  ValueId content(ValueId v) const {
    while (slot(v).view) v = g_.operand(g_.def(v), 0);
    return v;
  }

  // Uses of the value and of its views at step `to` or later. `aliases`: the value and its views.
  std::vector<Graph::Use> late_uses(ValueId v, uint32_t to, std::vector<ValueId>* aliases) const {
    std::vector<Graph::Use> late;
    *aliases = {v};
    for (size_t i = 0; i < aliases->size(); ++i)
      for (const Graph::Use use : g_.uses((*aliases)[i])) {
        if (use.user.raw >= plan_.step.size()) continue;
        if (g_.result_count(use.user) > 0 && slot(g_.result(use.user)).view) aliases->push_back(g_.result(use.user));
        else if (plan_.step[use.user.raw] >= to) late.push_back(use);
      }
    return late;
  }

  void change(uint32_t from, uint32_t to, int64_t by) {
    for (uint32_t t = from; t < to; ++t) load_[t] += static_cast<uint64_t>(by);
  }

  void find_hot() {
    hot_.clear();
    for (uint32_t t = 0; t < load_.size(); ++t)
      if (load_[t] > limit_) hot_.push_back(t);
  }

  // Bytes above the limit, summed over steps, that freeing `size` bytes in [from, to) saves.
  double excess(uint32_t from, uint32_t to, uint64_t size) const {
    double bytes = 0;
    for (auto t = std::ranges::lower_bound(hot_, from); t != hot_.end() && *t < to; ++t)
      bytes += static_cast<double>(std::min(size, load_[*t] - limit_));
    return bytes;
  }

  std::optional<Choice> computed(ValueId v, uint32_t from, uint32_t to) const {
    if (to <= from + 1 || to >= plan_.schedule.size() || g_.launch(plan_.schedule[to]).valid()) return std::nullopt;
    Choice c{v, from, to, {}, {}, {}};
    c.bytes_saved = excess(from + 1, to, size_of(slot(v)));
    if (c.bytes_saved == 0 || !collect(v, size_of(slot(v)), to, &c) || c.bytes_saved <= 0) return std::nullopt;
    for (NodeId n : c.nodes) c.work_ns += launch_time_ns(node_cost(g_, n), Machine{});
    c.by_time = contractions_;
    return c;
  }

  // The copies of small parts that are read after the gap.
  std::optional<Choice> parts(ValueId v, uint32_t from, uint32_t to) const {
    const uint32_t last = last_read(v);
    if (g_.launch(plan_.schedule[from]).valid()) return std::nullopt;
    if (to <= from + 1 || last >= plan_.schedule.size() || excess(from + 1, last + 1, size_of(slot(v))) == 0) return std::nullopt;
    Choice c{v, from, to, {}, {}, {}};
    std::vector<ValueId> aliases;
    uint64_t bytes = 0;
    for (const Graph::Use use : late_uses(v, to, &aliases)) {
      const ValueId part = g_.operand(use.user, use.index);
      if (std::ranges::find(c.parts, part) != c.parts.end()) continue;
      const bool can_copy = part != v && (is_float(g_.dtype(part)) || is_integer(g_.dtype(part)));
      bytes += size_of(slot(part));
      if (!can_copy || c.parts.size() >= kMostNodes || bytes >= size_of(slot(v))) return std::nullopt;
      c.parts.push_back(part);
    }
    if (c.parts.empty()) return std::nullopt;
    c.bytes_saved = excess(from + 1, last + 1, size_of(slot(v)) - bytes);
    c.elements = 2 * static_cast<double>(bytes);
    return c;
  }

  // Collects the nodes to copy so that the value exists at step `to`.
  bool collect(ValueId v, uint64_t bytes, uint32_t to, Choice* c) const {
    const NodeId n = g_.def(v);
    if (!may_copy(v) || c->nodes.size() >= kMostNodes) return false;
    if (std::ranges::find(c->nodes, n) != c->nodes.end()) return true;
    double elements = static_cast<double>(bytes);
    for (ValueId operand : recipe_of(g_, n).operands) {
      if (!operand.valid()) continue;
      if (operand.raw >= plan_.slot.size()) return false;  // made by an earlier copy
      const ValueId u = content(operand);
      const Slot& s = slot(u);
      const uint64_t size = size_of(s);
      elements += static_cast<double>(size);
      if (s.region == Region::State || s.region == Region::None) return false;
      const bool is_external = s.region != Region::Activations && s.region != Region::Output;
      if (!is_external && last_read(u) < to) {
        const double costs = s.region == Region::Activations ? excess(last_read(u) + 1, to + 1, size) : 0;
        const Choice before = *c;
        if ((contractions_ || size > bytes / 2) && collect(u, size, to, c)) continue;
        *c = before;
        c->bytes_saved -= costs;
      }
      c->read.push_back(u);
    }
    c->nodes.push_back(n);
    c->elements += elements;
    return true;
  }

  // Moves views without readers to the definition of their operand: in their old place they would extend its liveness.
  void set_unread_views_aside(const std::vector<ValueId>& aliases) {
    std::set<NodeId> unread;
    for (size_t i = aliases.size() - 1; i > 0; --i) {
      const auto uses = g_.uses(aliases[i]);
      if (std::all_of(uses.begin(), uses.end(), [&](Graph::Use use) { return unread.contains(use.user); }))
        unread.insert(g_.def(aliases[i]));
    }
    for (size_t i = 1; i < aliases.size(); ++i) {
      const NodeId view = g_.def(aliases[i]), behind = g_.next(g_.def(g_.operand(view, 0)));
      if (unread.contains(view) && view != behind) g_.move_before(view, behind);
    }
  }

  ValueId copy(NodeId n, NodeId before, std::map<ValueId, ValueId>* copied, ComputedAgain* out) {
    Recipe r = recipe_of(g_, n);
    for (ValueId& v : r.operands)
      if (v.valid()) v = in_copy(v, before, copied, out);
    const TypeId type = g_.type_id(g_.result(n));
    const NodeId made = g_.make_node(r.op, r.operands, g_.attr_id(n), {&type, 1}, {}, before);
    g_.set_origin(made, g_.origin(n));
    out->copies.push_back(made);
    return copied->emplace(g_.result(n), g_.result(made)).first->second;
  }

  // Copies a view by Max(v, v), which computes v into a buffer of its own.
  ValueId copy_part(ValueId part, NodeId before, ComputedAgain* out) {
    std::vector<NodeId> path;
    ValueId v = part;
    for (; slot(v).view; v = g_.operand(g_.def(v), 0)) path.push_back(g_.def(v));
    std::map<ValueId, ValueId> shown{{v, v}};
    for (auto n = path.rbegin(); n != path.rend(); ++n) v = copy(*n, before, &shown, out);
    Builder b(g_, nullptr, before);
    const ValueId made = b.create(OpKind::Max, {v, v});
    g_.set_origin(g_.def(made), g_.origin(g_.def(part)));
    out->copies.push_back(g_.def(made));
    return made;
  }

  // The value, its copy, or a view of the copy.
  ValueId in_copy(ValueId v, NodeId before, std::map<ValueId, ValueId>* copied, ComputedAgain* out) {
    if (const auto it = copied->find(v); it != copied->end()) return it->second;
    if (v.raw >= plan_.slot.size() || !slot(v).view || !copied->contains(content(v))) return v;
    return copy(g_.def(v), before, copied, out);
  }

  Graph& g_;
  const GraphPlan& plan_;
  const uint64_t limit_;
  const bool contractions_;
  std::vector<uint64_t> load_;                // by step
  std::vector<uint32_t> hot_;                 // steps above the limit
  std::vector<std::vector<uint32_t>> reads_;  // by value: steps that read it or a view of it, ascending
  std::vector<bool> taken_;                   // by value
};

}  // namespace

Recipe recipe_of(const Graph& g, NodeId n) {
  if (!is_residual_norm(g.op(n))) return {g.op(n), {g.operands(n).begin(), g.operands(n).end()}};
  const OpKind norm = g.op(n) == OpKind::FusedResidualLN ? OpKind::LayerNorm : OpKind::RmsNorm;
  return {norm, {g.result(n, 1), g.operand(n, 3), g.operand(n, 4)}};
}

ComputedAgain compute_again(Graph& g, const GraphPlan& plan, Instead how, const Allowance& allowed,
                            const std::set<ValueId>& refused) {
  ComputedAgain out;
  Recomputation r(g, plan, allowed, refused);
  double work_ns = 0;
  for (auto gaps = r.gaps(how); !gaps.empty() && out.values.size() < allowed.most;) {
    Gap gap = gaps.top();
    gaps.pop();
    const auto choice = r.choice(how, gap.value, gap.from, gap.to);
    if (!choice || work_ns + choice->work_ns > allowed.work_ns) continue;
    if (!gaps.empty() && choice->gain() < gaps.top().gain) {  // copies made since have lowered it
      gap.gain = choice->gain();
      gaps.push(gap);
      continue;
    }
    work_ns += choice->work_ns;
    r.apply(*choice, &out);
  }
  return out;
}

void erase_unread(Graph& g, const GraphPlan& plan) {
  for (auto n = plan.schedule.rbegin(); n != plan.schedule.rend(); ++n) {
    if (has_trait(g.op(*n), kLeaf | kTerminator | kImpure | kSequenceOp | kBody | kCollective)) continue;
    bool read = false;
    for (size_t r = 0; r < g.result_count(*n); ++r) read |= g.use_count(g.result(*n, r)) > 0;
    if (!read) g.erase(*n);
  }
}

void undo(Graph& g, const ComputedAgain& made) {
  for (auto e = made.edits.rbegin(); e != made.edits.rend(); ++e) g.set_operand(e->user, e->index, e->before);
  for (auto n = made.copies.rbegin(); n != made.copies.rend(); ++n) g.erase(*n);
}

}  // namespace rlxc
