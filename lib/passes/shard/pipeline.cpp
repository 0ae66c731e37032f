#include "passes/shard/pipeline.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "analysis/phases.h"
#include "analysis/views.h"
#include "ir/builder.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kDear = 1e15;  // of what no cut should cross, and sums stay finite
constexpr int kHalvings = 60;

class Cutter {
 public:
  Cutter(Graph& g, const Mesh& mesh, size_t axis, const PassContext& context)
      : g_(g),
        mesh_(mesh),
        axis_(axis),
        count_(static_cast<size_t>(mesh.axes[axis].size)),
        machine_(context.target.machine),
        link_{context.options.link_bandwidth},
        phase_(program_phases(g)),
        step_(g.node_capacity(), kNone),
        reach_(g.value_capacity()),
        sent_(g.value_capacity()),
        elsewhere_(g.value_capacity()) {}

  bool run(const shard::NodeStages& given, Diagnostics& d) {
    if (const std::string why = refusal(); !why.empty()) {
      d.error(Code::BadSharding, why, "--parallel pipeline");
      return false;
    }
    price();
    bound_cuts(given, d);
    choose_cuts();
    demand();
    send();
    return true;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  bool runs(NodeId n) const { return !has_trait(g_.op(n), kLeaf | kTerminator) && phase_[n.raw] != Phase::Prologue; }

  std::string refusal() {
    const std::string& name = mesh_.axes[axis_].name;
    if (count_ > static_cast<size_t>(Stages::kMost)) return "a pipeline has at most " + std::to_string(Stages::kMost) + " stages";
    std::set<std::string> sizes;
    const auto each_symbol = [&](ValueId v, auto f) {
      for (Dim dim : g_.dims(v))
        if (!dim.is_static())
          for (const std::string& s : g_.module().dims.symbols_of(dim)) f(s);
    };
    for (NodeId n : g_.inputs()) each_symbol(g_.result(n), [&](const std::string& s) { sizes.insert(s); });
    for (NodeId n : g_.nodes()) {
      const auto uses_axis = [&](const CollectiveAttrs& a) { return std::ranges::find(a.along, name) != a.along.end(); };
      if (has_trait(g_.op(n), kCollective) && uses_axis(g_.attrs<CollectiveAttrs>(n)))
        return "mesh axis " + name + " already splits node " + g_.label(n).quoted();
      std::string unknown;
      for (size_t r = 0; r < g_.result_count(n); ++r)
        each_symbol(g_.result(n, r), [&](const std::string& s) { unknown = sizes.contains(s) ? unknown : s; });
      if (!unknown.empty())
        return "the size " + ForeignText(unknown).quoted() + " of node " + g_.label(n).quoted() +
               " depends on data, which other stages do not have";
      if (!runs(n)) continue;
      step_[n.raw] = steps_.size();
      steps_.push_back(n);
    }
    if (steps_.size() >= count_) return {};
    return "the model has " + std::to_string(steps_.size()) + " steps, too few for " + std::to_string(count_) + " stages";
  }

  double own_ns(NodeId n) const { return exchanges_data(g_.op(n)) ? exchange_cost(g_, n, link_).ns : step_ns(g_, n, machine_); }

  // The cost of a value on another stage: it is sent, or computed there from operands with the same choice.
  // Nodes that read weights are computed by one stage, so that no other needs these.
  void price() {
    std::vector<bool> of_weights(g_.value_capacity());
    for (NodeId n : g_.nodes())
      for (size_t r = 0; r < g_.result_count(n) && !runs(n); ++r)
        of_weights[g_.result(n, r).raw] = g_.op(n) == OpKind::Param || std::ranges::any_of(g_.operands(n), [&](ValueId v) {
                                            return v.valid() && of_weights[v.raw];
                                          });
    for (NodeId n : steps_) {
      double again = has_trait(g_.op(n), kImpure) ? kNever : own_ns(n);
      for (ValueId v : g_.operands(n))
        if (v.valid()) again += of_weights[v.raw] ? kNever : reach_[v.raw];
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        const double send = g_.type(v).kind == TypeKind::Tensor && g_.dtype(v) != DType::String
                                ? send_ns(byte_size(g_.type(v)).value_or(0), link_)
                                : kNever;
        // Parts are sent before they are gathered: by more links, and in less memory.
        sent_[v.raw] = send < again && (g_.op(n) != OpKind::AllGather || again == kNever);
        reach_[v.raw] = sent_[v.raw] ? send : again;
      }
    }
  }

  // Where each stage may begin: after the last step of earlier ones, at most at the first step of its own. Exchanges may be on
  // either side of a cut.
  void bound_cuts(const shard::NodeStages& given, Diagnostics& d) {
    least_.assign(count_, 0);
    most_.assign(count_, steps_.size());
    if (given.empty()) return;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (has_trait(g_.op(steps_[i]), kCollective)) continue;
      int64_t stage = -1;
      for (Symbol source : merged_origin(g_, {&steps_[i], 1}).sources)
        if (const auto at = given.find(g_.module().bytes(source)); at != given.end()) stage = std::max(stage, at->second);
      for (size_t s = 0; stage >= 0 && s < count_; ++s) {
        if (std::cmp_less(stage, s)) least_[s] = i + 1;
        else most_[s] = std::min(most_[s], i);
      }
    }
    for (size_t s = 0; s < count_; ++s) {
      if (least_[s] <= most_[s]) continue;
      d.warning(Code::ShardingConflict,
                "stage " + std::to_string(s) + " would begin before stage " + std::to_string(s - 1) +
                    " ends; the stages of the model are ignored",
                "the device configuration of the model", "stages follow the execution order of the nodes");
      least_.assign(count_, 0);
      most_.assign(count_, steps_.size());
      return;
    }
  }

  // first_[s]: the first step of stage s. The least time for which there is such a cut is found by bisection: a stage takes its
  // steps and the exchange of what lives behind it.
  void choose_cuts() {
    const size_t n = steps_.size();
    std::vector<double> until(n + 1), cross(n + 1);
    for (size_t i = 0; i < n; ++i) {
      until[i + 1] = until[i] + own_ns(steps_[i]);
      for (size_t r = 0; r < g_.result_count(steps_[i]); ++r) {
        const ValueId v = g_.result(steps_[i], r);
        size_t last = i;
        for (Graph::Use use : g_.uses(v))
          if (step_[use.user.raw] != kNone) last = std::max(last, step_[use.user.raw]);
        if (last == i || reach_[v.raw] == 0) continue;
        const double ns = std::min(reach_[v.raw], kDear);
        cross[i + 1] += ns;
        cross[last + 1] -= ns;
      }
    }
    for (size_t i = 1; i <= n; ++i) cross[i] += cross[i - 1];
    cross[n] = 0;
    const auto fits = [&](double limit, std::vector<std::vector<size_t>>* from) {
      std::vector<bool> reached(n + 1), next(n + 1);
      reached[0] = true;
      for (size_t s = 0; s < count_; ++s) {
        size_t begin = kNone;
        if (from) from->emplace_back(n + 1, kNone);
        for (size_t i = 0; i <= n; ++i) {
          const bool good = begin != kNone && until[i] - until[begin] + cross[i] <= limit && (s + 1 < count_ || i == n);
          next[i] = good;
          if (good && from) from->back()[i] = begin;
          if (reached[i] && least_[s] <= i && i <= most_[s]) begin = i;
        }
        reached.swap(next);
      }
      return static_cast<bool>(reached[n]);
    };
    double low = 0, high = until[n] + std::ranges::max(cross);
    for (int k = 0; k < kHalvings && low < high; ++k) {
      const double middle = (low + high) / 2;
      (fits(middle, nullptr) ? high : low) = middle;
    }
    std::vector<std::vector<size_t>> from;
    fits(high, &from);
    first_.assign(count_ + 1, n);
    for (size_t s = count_; s-- > 0;) first_[s] = from[s][first_[s + 1]];
  }

  size_t stage_of(NodeId n) const {
    return static_cast<size_t>(std::ranges::upper_bound(first_, step_[n.raw]) - first_.begin()) - 1;
  }

  // The stages that compute each node: its own, and those that compute it again. Backwards from the outputs.
  void demand() {
    computed_.assign(g_.node_capacity(), 0);
    const uint32_t all = count_ == static_cast<size_t>(Stages::kMost) ? Stages::kAll : (uint32_t{1} << count_) - 1;
    computed_[g_.terminator().raw] = all;
    for (ValueId v : g_.outputs()) need(v, all);
    for (size_t i = steps_.size(); i-- > 0;) {
      const NodeId n = steps_[i];
      uint32_t bits = uint32_t{1} << stage_of(n);
      for (size_t r = 0; r < g_.result_count(n); ++r)
        if (!sent_[g_.result(n, r).raw]) bits |= elsewhere_[g_.result(n, r).raw];
      computed_[n.raw] = bits;
      for (ValueId v : g_.operands(n)) need(v, bits);
    }
  }
  void need(ValueId v, uint32_t stages) {
    if (v.valid() && step_[g_.def(v).raw] != kNone) elsewhere_[v.raw] |= stages & ~(uint32_t{1} << stage_of(g_.def(v)));
  }

  // One exchange for each value, after its node. The stage that has it keeps reading its own, unless a reader runs elsewhere,
  // too.
  void send() {
    Module& m = g_.module();
    for (NodeId n : steps_) {
      const size_t own = stage_of(n);
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        if (!sent_[v.raw] || elsewhere_[v.raw] == 0) continue;
        std::vector<Graph::Use> readers;
        uint32_t receivers = 0;
        for (Graph::Use use : g_.uses(v))
          if (const uint32_t at = computed_[use.user.raw]; at & ~(uint32_t{1} << own)) readers.push_back(use), receivers |= at;
        CollectiveAttrs a;
        a.mesh = mesh_.text();
        a.along = {mesh_.axes[axis_].name};
        for (size_t s = 0; s < count_; ++s) a.source.push_back(receivers >> s & 1 ? static_cast<int64_t>(own) : -1);
        Builder b(g_, nullptr, g_.next(n));
        b.set_node_name(m.symbol(g_.label(n).bytes() + ".send"));
        const ValueId received = b.create(OpKind::CollectivePermute, {v}, std::move(a));
        g_.set_origin(g_.def(received), g_.origin(n));
        for (const Graph::Use& use : readers) g_.set_operand(use.user, use.index, received);
      }
    }
  }

  Graph& g_;
  const Mesh& mesh_;
  const size_t axis_, count_;
  const Machine& machine_;
  const Link link_;
  const std::vector<Phase> phase_;
  std::vector<NodeId> steps_;
  std::vector<size_t> step_;  // by node: its number among the steps
  std::vector<double> reach_;
  std::vector<bool> sent_;           // by value
  std::vector<uint32_t> elsewhere_;  // by value: stages that need it beside its own
  std::vector<size_t> first_;
  std::vector<size_t> least_, most_;  // bounds of first_
  std::vector<uint32_t> computed_;    // by node: stages
};

}  // namespace

double step_ns(const Graph& g, NodeId n, const Machine& machine) {
  return view_of(g, n) || !g.alive(n) ? 0 : launch_time_ns(node_cost(g, n), machine);
}

RunClock predicted_run(const Graph& g, const PassContext& context) {
  const Link link{context.options.link_bandwidth};
  const std::vector<Phase> phase = program_phases(g);
  RunClock clock(g);
  for (NodeId n : g.nodes()) {
    if (phase[n.raw] == Phase::Prologue || has_trait(g.op(n), kLeaf)) continue;
    if (exchanges_data(g.op(n))) clock.exchange(n, link);
    else clock.compute(n, step_ns(g, n, context.target.machine));
  }
  return clock;
}

bool cut_pipeline(Graph& g, const Mesh& mesh, size_t axis, const shard::NodeStages& given, const PassContext& context,
                  Diagnostics& d) {
  return Cutter(g, mesh, axis, context).run(given, d);
}

}  // namespace rlxc
