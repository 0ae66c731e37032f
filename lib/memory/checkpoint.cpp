#include "memory/checkpoint.h"

#include <algorithm>
#include <map>
#include <set>

namespace rlxc {
namespace {

constexpr uint32_t kOnce = kBody | kLeaf | kTerminator | kImpure | kSequenceOp | kCollective;

class Checkpoints {
 public:
  Checkpoints(Graph& g, const GraphPlan& plan)
      : g_(g), plan_(plan), defined_(g.value_capacity()), last_(g.value_capacity()), early_(g.value_capacity()) {
    for (NodeId n : plan.schedule)
      for (size_t r = 0; r < g.result_count(n); ++r) defined_[g.result(n, r).raw] = last_[g.result(n, r).raw] = step(n);
    each_read([&](ValueId v, uint32_t at) { last_[v.raw] = std::max(last_[v.raw], at); });
    for (ValueId v : g.outputs()) last_[content(v).raw] = steps();
    find_peak();
    each_read([&](ValueId v, uint32_t at) {
      if (at < peak_) early_[v.raw] = std::max(early_[v.raw], at);
    });
  }

  ComputedAgain run(uint64_t segments) {
    uint64_t bytes = 0;
    each_kept([&](ValueId v) { bytes += size_of(v); });
    cut(std::max<uint64_t>(bytes / segments, 1));
    derived_.resize(ends_.size());
    for (uint32_t t = 0; t < peak_; ++t)
      for (size_t r = 0; r < g_.result_count(plan_.schedule[t]); ++r)
        if (const ValueId v = g_.result(plan_.schedule[t], r); is_derived(v)) derived_[segment_of(early_[v.raw])].push_back(v);
    ComputedAgain out;
    for (size_t s = 0; s + 1 < ends_.size(); ++s) compute_again(s, &out);
    return out;
  }

 private:
  uint32_t step(NodeId n) const { return plan_.step[n.raw]; }
  uint32_t steps() const { return static_cast<uint32_t>(plan_.schedule.size()); }
  const Slot& slot(ValueId v) const { return plan_.slot[v.raw]; }
  bool is_view(NodeId n) const { return g_.result_count(n) > 0 && slot(g_.result(n)).view; }
  ValueId content(ValueId v) const {
    while (slot(v).view) v = g_.operand(g_.def(v), 0);
    return v;
  }
  bool is_activation(ValueId v) const { return slot(v).region == Region::Activations && slot(v).size.is_static(); }
  uint64_t size_of(ValueId v) const { return static_cast<uint64_t>(slot(v).size.size()); }

  template <class F>
  void each_read(const F& f) const {
    for (NodeId n : plan_.schedule)
      if (!is_view(n))
        for (ValueId v : g_.operands(n))
          if (v.valid()) f(content(v), step(n));
  }
  // Values of the first half that the second half reads.
  template <class F>
  void each_kept(const F& f) const {
    for (uint32_t t = 0; t < peak_; ++t)
      for (size_t r = 0; r < g_.result_count(plan_.schedule[t]); ++r)
        if (const ValueId v = g_.result(plan_.schedule[t], r); is_activation(v) && !slot(v).view && last_[v.raw] >= peak_) f(v);
  }

  // Where most bytes wait for a reader that is far: a large value that is read at once says nothing about the halves.
  void find_peak() {
    const uint32_t far = std::max<uint32_t>(steps() / 32, 2);
    std::vector<int64_t> change(plan_.schedule.size() + 2);
    std::vector<uint32_t> reached = defined_;
    const auto wait = [&](ValueId v, uint32_t until) {
      uint32_t& since = reached[v.raw];
      if (is_activation(v) && until >= since + far) {
        change[since] += static_cast<int64_t>(size_of(v));
        change[until] -= static_cast<int64_t>(size_of(v));
      }
      since = std::max(since, until);
    };
    each_read(wait);
    for (ValueId v : g_.outputs()) wait(content(v), steps());
    int64_t bytes = 0, most = 0;
    for (uint32_t t = 0; t < steps(); ++t)
      if (bytes += change[t]; bytes > most) most = bytes, peak_ = t;
  }

  // Bytes that live between the steps t and t + 1 of the first half for its own sake.
  std::vector<int64_t> crossing_bytes() const {
    std::vector<int64_t> bytes(peak_ + 1);
    for (uint32_t t = 0; t < peak_; ++t)
      for (size_t r = 0; r < g_.result_count(plan_.schedule[t]); ++r)
        if (const ValueId v = g_.result(plan_.schedule[t], r);
            is_activation(v) && !slot(v).view && early_[v.raw] > t && !is_norm_of_sum(v)) {
          bytes[t] += static_cast<int64_t>(size_of(v));
          bytes[early_[v.raw]] -= static_cast<int64_t>(size_of(v));
        }
    for (uint32_t t = 1; t <= peak_; ++t) bytes[t] += bytes[t - 1];
    return bytes;
  }

  // A segment ends where the least crosses, among the steps at which it has one to two times the bytes.
  void cut(uint64_t segment_bytes) {
    const std::vector<int64_t> crossing = crossing_bytes();
    std::vector<uint64_t> kept(peak_);
    each_kept([&](ValueId v) { kept[defined_[v.raw]] += size_of(v); });
    uint64_t bytes = 0;
    uint32_t best = 0;
    for (uint32_t t = 0; t < peak_; ++t) {
      bytes += kept[t];
      if (bytes < segment_bytes) continue;
      if (best == 0 || crossing[t] < crossing[best]) best = t;
      if (bytes < 2 * segment_bytes) continue;
      ends_.push_back(best + 1);
      t = best;
      bytes = best = 0;
    }
    ends_.push_back(peak_);
  }

  bool can_copy(NodeId n) const {
    if (has_trait(g_.op(n), kOnce) || plan_.phase[n.raw] == Phase::Prologue) return false;
    for (size_t r = 0; r < g_.result_count(n); ++r)
      if (!is_activation(content(g_.result(n, r))) || !std::ranges::all_of(g_.dims(g_.result(n, r)), &Dim::is_static))
        return false;
    return true;
  }

  // The first result of a fused residual norm, which follows from the second.
  bool is_norm_of_sum(ValueId v) const {
    const NodeId n = g_.def(v);
    return is_residual_norm(g_.op(n)) && v == g_.result(n) && can_copy(n);
  }

  size_t segment_of(uint32_t t) const { return static_cast<size_t>(std::ranges::upper_bound(ends_, t) - ends_.begin()); }

  // Whether the value is not kept although it crosses a cut: its last segment computes it from the sum, which is kept.
  bool is_derived(ValueId v) const {
    return is_norm_of_sum(v) && last_[v.raw] < steps() && segment_of(early_[v.raw]) > segment_of(defined_[v.raw]);
  }

  // Whether the segment computes the value again: it is its own, and nothing behind it reads the value early.
  bool is_redone(ValueId v, size_t segment) const {
    const ValueId c = content(v);
    if (is_derived(c)) return c == v && segment_of(early_[c.raw]) == segment;
    const auto within = [&](ValueId u) { return segment_of(defined_[u.raw]) == segment && can_copy(g_.def(u)); };
    return within(v) && within(c) && early_[c.raw] < ends_[segment] && last_[c.raw] < steps();
  }

  void compute_again(size_t segment, ComputedAgain* out) {
    const uint32_t begin = segment == 0 ? 0 : ends_[segment - 1];
    std::vector<Graph::Use> late;
    uint32_t first = steps();
    const auto collect = [&](ValueId v) {
      if (!is_redone(v, segment)) return;
      for (const Graph::Use use : g_.uses(v)) {
        if (use.user.raw >= plan_.step.size() || step(use.user) < peak_) continue;
        late.push_back(use);
        first = std::min(first, step(use.user));
      }
      if (!slot(v).view && last_[v.raw] >= peak_) out->values.push_back(v);
    };
    for (ValueId v : derived_[segment]) collect(v);
    for (uint32_t t = begin; t < ends_[segment]; ++t)
      for (size_t r = 0; r < g_.result_count(plan_.schedule[t]); ++r)
        if (const ValueId v = g_.result(plan_.schedule[t], r); !is_derived(v)) collect(v);
    if (late.empty() || first >= steps()) return;
    while (first > peak_ && g_.launch(plan_.schedule[first]).valid() &&
           g_.launch(plan_.schedule[first]) == g_.launch(plan_.schedule[first - 1]))
      --first;
    const auto copies = copy_needed(segment, begin, late, plan_.schedule[first], out);
    for (const Graph::Use use : late) {
      const ValueId before = g_.operand(use.user, use.index);
      out->edits.push_back({use.user, use.index, before});
      g_.set_operand(use.user, use.index, copies.at(before));
    }
  }

  // The copies of the values that late readers need, by value.
  std::map<ValueId, ValueId> copy_needed(size_t segment, uint32_t begin, const std::vector<Graph::Use>& late, NodeId reader,
                                         ComputedAgain* out) {
    std::vector<bool> needed(ends_[segment] - begin);
    std::set<ValueId> norms;
    const auto need = [&](ValueId v) {
      if (is_derived(v)) norms.insert(v);
      else needed[defined_[v.raw] - begin] = true;
    };
    for (const Graph::Use use : late) need(g_.operand(use.user, use.index));
    for (uint32_t t = ends_[segment]; t-- > begin;)
      if (needed[t - begin])
        for (ValueId v : g_.operands(plan_.schedule[t]))
          if (v.valid() && is_redone(v, segment)) need(v);
    std::map<ValueId, ValueId> copies;
    for (ValueId v : norms) copies.emplace(v, norm_of_sum(g_.def(v), reader, out));
    for (uint32_t t = begin; t < ends_[segment]; ++t)
      if (needed[t - begin]) copy(plan_.schedule[t], reader, &copies, out);
    return copies;
  }

  ValueId norm_of_sum(NodeId n, NodeId before, ComputedAgain* out) {
    const Recipe norm = recipe_of(g_, n);
    const TypeId type = g_.type_id(g_.result(n));
    const NodeId made = g_.make_node(norm.op, norm.operands, g_.attr_id(n), {&type, 1}, {}, before);
    g_.set_origin(made, g_.origin(n));
    out->copies.push_back(made);
    return g_.result(made);
  }

  void copy(NodeId n, NodeId before, std::map<ValueId, ValueId>* copies, ComputedAgain* out) {
    std::vector<ValueId> operands(g_.operands(n).begin(), g_.operands(n).end());
    for (ValueId& v : operands)
      if (const auto it = copies->find(v); it != copies->end()) v = it->second;
    std::vector<TypeId> types;
    for (size_t r = 0; r < g_.result_count(n); ++r) types.push_back(g_.type_id(g_.result(n, r)));
    const NodeId made = g_.make_node(g_.op(n), operands, g_.attr_id(n), types, {}, before);
    g_.set_origin(made, g_.origin(n));
    out->copies.push_back(made);
    for (size_t r = 0; r < types.size(); ++r) copies->emplace(g_.result(n, r), g_.result(made, r));
  }

  Graph& g_;
  const GraphPlan& plan_;
  uint32_t peak_ = 0;                          // the second half begins here
  std::vector<uint32_t> defined_, last_;       // by value: steps
  std::vector<uint32_t> early_;                // by value: last reader in the first half
  std::vector<uint32_t> ends_;                 // of segments
  std::vector<std::vector<ValueId>> derived_;  // by segment
};

}  // namespace

ComputedAgain compute_segments_again(Graph& g, const GraphPlan& plan, uint64_t segments) {
  return Checkpoints(g, plan).run(segments);
}

}  // namespace rlxc
