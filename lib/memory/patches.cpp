#include "memory/patches.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "analysis/cost.h"
#include "analysis/phases.h"
#include "codegen/lower.h"
#include "ir/builder.h"
#include "ir/op_rules.h"

namespace rlxc {
namespace {

constexpr size_t kLongest = 96;   // nodes of a segment
constexpr size_t kMostCuts = 24;  // places where segments that begin at one may end
constexpr int64_t kParts[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64};
constexpr double kPartNs = 1000;  // of a node in a part: kernels use the processor less well

uint64_t bytes_of(const Graph& g, ValueId v) { return byte_size(g.type(v)).value_or(0); }

int64_t rows_of(const Graph& g, ValueId v, size_t axis) { return g.dims(v)[axis].size(); }

// Whether rows are whole blocks of bytes, which need not be copied to cut them out or to join them.
bool is_outer(const Graph& g, ValueId v, size_t axis) {
  return std::ranges::all_of(g.dims(v).first(axis), [](Dim d) { return d == Dim(1); });
}

// The rows of every node that a part computes, given what it computes of the results of the segment.
class PartRows {
 public:
  PartRows(const Graph& g, const std::vector<NodeId>& nodes, const std::vector<RowMap>& maps)
      : g_(g), nodes_(nodes), maps_(maps), outputs_(nodes.size()), rows_(nodes.size()) {
    for (size_t i = 0; i < nodes.size(); ++i) position_.emplace(nodes[i], i);
    for (size_t i = 0; i < nodes.size(); ++i)
      for (size_t r = 0; r < g.result_count(nodes[i]); ++r) {
        const ValueId v = g.result(nodes[i], r);
        for (Graph::Use use : g.uses(v))
          if (!position_.contains(use.user)) {
            outputs_[i].push_back(v);
            break;
          }
      }
  }

  // The position of the node in the segment, or of the one that makes the value.
  std::optional<size_t> position(NodeId n) const {
    const auto it = position_.find(n);
    return it == position_.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<size_t> maker(ValueId v) const { return position(g_.def(v)); }
  const std::vector<ValueId>& outputs(size_t i) const { return outputs_[i]; }  // results that others read
  RowRange rows(size_t i) const { return rows_[i]; }
  // The rows of the node's results that belong to the part.
  RowRange own(size_t i, int64_t part, int64_t parts) const {
    const int64_t all = rows_of(g_, g_.result(nodes_[i]), maps_[i].axis);
    return {all * part / parts, all * (part + 1) / parts};
  }
  RowRange read(size_t i, size_t operand) const {
    const size_t axis = maps_[i].operands[operand]->axis;
    return rows_read(maps_[i], operand, rows_[i], rows_of(g_, g_.operand(nodes_[i], operand), axis));
  }

  // Whether parts can be made at all: what a node reads whole comes from outside, and rows are along one axis.
  bool is_possible() const {
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t o = 0; o < maps_[i].operands.size(); ++o) {
        const ValueId v = g_.operand(nodes_[i], o);
        const auto from = v.valid() ? maker(v) : std::nullopt;
        if (from && (!maps_[i].operands[o] || maps_[i].operands[o]->axis != maps_[*from].axis)) return false;
      }
    return true;
  }

  // Returns false if there is a part of the results without rows, or of which a window reads only padding.
  bool set(int64_t part, int64_t parts) {
    for (size_t i = nodes_.size(); i-- > 0;) {
      RowRange r;
      const auto add = [&r](RowRange more) {
        r = r.size() == 0 ? more : RowRange{std::min(r.begin, more.begin), std::max(r.end, more.end)};
      };
      if (!outputs_[i].empty()) add(own(i, part, parts));
      if (!outputs_[i].empty() && r.size() == 0) return false;
      for (size_t k = 0; k < g_.result_count(nodes_[i]); ++k)
        for (Graph::Use use : g_.uses(g_.result(nodes_[i], k)))
          if (const auto user = position_.find(use.user); user != position_.end() && rows_[user->second].size() > 0)
            add(read(user->second, use.index));
      rows_[i] = r = rows_computed(maps_[i], r, rows_of(g_, g_.result(nodes_[i]), maps_[i].axis));
      for (size_t o = 0; r.size() > 0 && o < maps_[i].operands.size(); ++o)
        if (maps_[i].operands[o] && read(i, o).size() == 0) return false;
    }
    return true;
  }

 private:
  const Graph& g_;
  const std::vector<NodeId>& nodes_;
  const std::vector<RowMap>& maps_;
  std::map<NodeId, size_t> position_;
  std::vector<std::vector<ValueId>> outputs_;
  std::vector<RowRange> rows_;
};

struct Estimate {
  uint64_t peak = std::numeric_limits<uint64_t>::max();
  double ns = std::numeric_limits<double>::infinity();  // how much longer the segment takes
};

// Follows the memory of a segment that runs in parts, part by part and node by node.
class Walk {
 public:
  Walk(const Graph& g, const GraphPlan& plan, bool blocked, const std::vector<NodeId>& nodes, const std::vector<RowMap>& maps,
       uint64_t base)
      : g_(g), plan_(plan), blocked_(blocked), nodes_(nodes), maps_(maps), rows_(g, nodes, maps), live_(base), peak_(base) {}

  bool is_possible() const { return rows_.is_possible(); }

  Estimate run(int64_t parts, const std::vector<double>& node_ns) {
    std::vector<int64_t> computed(nodes_.size());
    each_output([&](size_t i, ValueId v) {
      if (is_outer(g_, v, maps_[i].axis)) add(arena_bytes(v));
    });
    for (int64_t part = 0; part < parts; ++part) {
      if (!rows_.set(part, parts)) return {};
      this->part(part, parts);
      for (size_t i = 0; i < nodes_.size(); ++i) computed[i] += rows_.rows(i).size();
    }
    each_output([&](size_t i, ValueId v) {
      if (is_outer(g_, v, maps_[i].axis)) return;
      add(arena_bytes(v));
      live_ -= bytes_of(g_, v);
      copied_ += bytes_of(g_, v);
    });
    constexpr Machine kMachine;
    double ns = 2 * static_cast<double>(copied_) / kMachine.memory_gbps;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto all = static_cast<double>(rows_of(g_, g_.result(nodes_[i]), maps_[i].axis));
      ns += node_ns[i] * std::max(static_cast<double>(computed[i]) / all - 1, 0.0) + static_cast<double>(parts - 1) * kPartNs;
    }
    return {peak_, ns};
  }

 private:
  struct Buffer {
    uint64_t bytes;
    size_t uses;  // left
  };

  template <class F>
  void each_output(const F& f) const {
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (ValueId v : rows_.outputs(i)) f(i, v);
  }

  uint64_t arena_bytes(ValueId v) const { return plan_.slot[v.raw].region == Region::Activations ? bytes_of(g_, v) : 0; }
  uint64_t bytes_of_rows(ValueId v, size_t axis, RowRange r) const {
    const auto all = static_cast<uint64_t>(rows_of(g_, v, axis));
    return bytes_of(g_, v) / all * static_cast<uint64_t>(r.size());
  }
  void add(uint64_t bytes) { peak_ = std::max(peak_, live_ += bytes); }

  // Whether the node reads rows of the operand where they are.
  bool reads_rows_in_place(size_t i, size_t operand) const {
    const NodeId n = nodes_[i];
    const ValueId v = g_.operand(n, operand);
    if (is_outer(g_, v, maps_[i].operands[operand]->axis)) return true;
    const LayoutRule layout = layout_rule(g_.op(n));
    if (blocked_ && g_.op(g_.def(v)) != OpKind::Input) return false;
    return (operand == 0 && layout == LayoutRule::Conv) || layout == LayoutRule::Elementwise || layout == LayoutRule::Concat;
  }
  void part(int64_t part, int64_t parts) {
    std::vector<Buffer> buffers;
    std::map<ValueId, size_t> buffer_of;
    const auto release = [&](size_t b) {
      if (--buffers[b].uses == 0) live_ -= buffers[b].bytes;
    };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const NodeId n = nodes_[i];
      const RowRange rows = rows_.rows(i);
      if (rows.size() == 0) continue;
      std::vector<size_t> reads(g_.operands(n).size(), SIZE_MAX);  // buffers
      std::vector<bool> exact(reads.size());                       // the operand is all of its buffer
      for (size_t o = 0; o < reads.size(); ++o) {
        const ValueId v = g_.operand(n, o);
        if (!v.valid() || !maps_[i].operands[o]) continue;
        const auto from = rows_.maker(v);
        const RowRange want = rows_.read(i, o);
        const RowRange have = from ? rows_.rows(*from) : RowRange{0, rows_of(g_, v, maps_[i].operands[o]->axis)};
        if (want == have || reads_rows_in_place(i, o)) {
          if (from) reads[o] = buffer_of.at(v);
          exact[o] = from && want == have;
          continue;
        }
        const uint64_t bytes = bytes_of_rows(v, maps_[i].operands[o]->axis, want);
        add(bytes);
        copied_ += bytes;
        if (from) release(buffer_of.at(v));
        reads[o] = buffers.size();
        exact[o] = true;
        buffers.push_back({bytes, 1});
      }
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId y = g_.result(n, r);
        size_t uses = 0;
        for (Graph::Use use : g_.uses(y)) {
          const auto user = rows_.position(use.user);
          uses += user && rows_.rows(*user).size() > 0;
        }
        const bool is_output = std::ranges::find(rows_.outputs(i), y) != rows_.outputs(i).end();
        const bool whole = rows_.own(i, part, parts) == rows;
        uses += is_output;
        if (uses == 0) continue;
        const uint64_t bytes = bytes_of_rows(y, maps_[i].axis, rows);
        size_t at = SIZE_MAX;
        const bool view = plan_.layouts.is_view(g_, n);
        for (size_t o = 0; o < reads.size() && at == SIZE_MAX; ++o)
          if (reads[o] != SIZE_MAX && exact[o] && buffers[reads[o]].bytes == bytes &&
              (view ? o == 0 : buffers[reads[o]].uses == 1 && codegen::may_overwrite(g_, n, r, o)))
            at = reads[o];
        if (at == SIZE_MAX) {
          at = buffers.size();
          buffers.push_back({bytes, 0});
          // Outer rows of a result are made in the whole result.
          if (is_output && whole && is_outer(g_, y, maps_[i].axis)) buffers[at].bytes = 0;
          add(buffers[at].bytes);
        }
        buffers[at].uses += uses;
        buffer_of[y] = at;
      }
      for (size_t b : reads)
        if (b != SIZE_MAX) release(b);
      for (ValueId y : rows_.outputs(i)) {
        const bool outer = is_outer(g_, y, maps_[i].axis), whole = rows_.own(i, part, parts) == rows;
        if (!whole || outer) {
          if (!outer) add(bytes_of_rows(y, maps_[i].axis, rows_.own(i, part, parts)));
          copied_ += whole ? 0 : bytes_of_rows(y, maps_[i].axis, rows_.own(i, part, parts));
          release(buffer_of.at(y));
        }  // else: the buffer stays until the parts are joined
      }
    }
  }

  const Graph& g_;
  const GraphPlan& plan_;
  const bool blocked_;
  const std::vector<NodeId>& nodes_;
  const std::vector<RowMap>& maps_;
  PartRows rows_;
  uint64_t live_, peak_, copied_ = 0;
};

}  // namespace

// Runs of steps whose nodes all can run in parts, and estimates of their segments.
struct PatchSearch::State {
  struct Run {
    std::vector<NodeId> nodes;
    std::vector<RowMap> maps;
    std::vector<double> ns;
    std::vector<size_t> cuts;        // positions between nodes where little is live, with both ends
    std::vector<uint64_t> crossing;  // by cut: bytes live there
    std::vector<uint64_t> load;      // by node: bytes live in its step
  };

  State(const Graph& graph, const GraphPlan& p, bool blocks) : g(graph), plan(p), blocked(blocks) {
    measure();
    find_runs();
  }

  uint64_t size_of(ValueId v) const {
    const Dim size = plan.slot[v.raw].size;
    return size.is_static() ? static_cast<uint64_t>(size.size()) : 0;
  }

  // Bytes live in each step, and from one to the next.
  void measure() {
    const size_t steps = plan.schedule.size();
    std::vector<uint32_t> first(g.value_capacity(), ~0u), last(g.value_capacity(), 0);
    for (NodeId n : plan.schedule)
      for (size_t r = 0; r < g.result_count(n); ++r) {
        const ValueId v = g.result(n, r);
        const Slot& s = plan.slot[v.raw];
        if (s.region != Region::Activations) continue;
        const ValueId owner = s.root.valid() ? s.root : v;
        first[owner.raw] = std::min(first[owner.raw], plan.step[n.raw]);
        last[owner.raw] = std::max({last[owner.raw], plan.step[n.raw], s.last_step});
      }
    std::vector<int64_t> at(steps + 2), between(steps + 2);
    for (size_t v = 0; v < first.size(); ++v) {
      if (first[v] == ~0u) continue;
      const auto bytes = static_cast<int64_t>(size_of(ValueId(v)));
      const size_t end = std::min<size_t>(last[v], steps);
      at[first[v]] += bytes;
      at[end + 1] -= bytes;
      between[first[v] + 1] += bytes;
      between[end + 1] -= bytes;
    }
    load.resize(steps + 1);
    entering.resize(steps + 1);
    int64_t sum = 0, sum_between = 0;
    for (size_t t = 0; t <= steps; ++t) {
      load[t] = static_cast<uint64_t>(sum += at[t]);
      entering[t] = static_cast<uint64_t>(sum_between += between[t]);
    }
  }

  bool is_free(NodeId n) const { return has_trait(g.op(n), kLeaf) || plan.phase[n.raw] == Phase::Prologue; }

  // The rows of the node: along an axis that continues the rows of an operand, or else along that of images and matrices.
  std::optional<RowMap> map_of(NodeId n, const std::vector<int>& axis_of) const {
    if (g.launch(n).valid() || g.result_count(n) == 0 || has_trait(g.op(n), kTerminator | kCollective)) return std::nullopt;
    for (size_t r = 0; r < g.result_count(n); ++r)
      if (!g.type(g.result(n, r)).is_static()) return std::nullopt;
    const auto rank = static_cast<size_t>(g.rank(g.result(n)));
    // Contractions read the whole right operand: parts of weights would be copies.
    const auto map = [&](size_t axis) -> std::optional<RowMap> {
      auto m = map_rows(g, n, axis);
      const bool cuts_weights = m && has_trait(g.op(n), kBlas) && m->operands[1];
      return m && !cuts_weights && rows_of(g, g.result(n), axis) > 1 ? m : std::nullopt;
    };
    for (size_t i = 0; i < g.operands(n).size(); ++i) {
      const ValueId v = g.operand(n, i);
      if (!v.valid() || axis_of[v.raw] < 0) continue;
      for (size_t axis = 0; axis < rank; ++axis)
        if (auto m = map(axis); m && m->operands[i] && m->operands[i]->axis == static_cast<size_t>(axis_of[v.raw])) return m;
    }
    // Images [N, C, H, ...], tokens [.., length, width] or signals [N, C, length].
    using Axes = std::array<size_t, 2>;
    for (size_t axis : rank >= 4 ? Axes{2, 2} : rank == 3 ? Axes{1, 2} : Axes{0, 0})
      if (auto m = map(axis)) return m;
    return std::nullopt;
  }

  void find_runs() {
    std::vector<int> axis_of(g.value_capacity(), -1);
    Run run;
    const auto finish = [&] {
      if (!run.nodes.empty()) {
        find_cuts(&run);
        runs.push_back(std::move(run));
      }
      run = {};
    };
    in_run.assign(plan.schedule.size() + 1, true);
    for (NodeId n : plan.schedule) {
      if (is_free(n)) continue;
      auto m = map_of(n, axis_of);
      if (!m) {
        in_run[plan.step[n.raw]] = false;
        finish();
        continue;
      }
      for (size_t r = 0; r < g.result_count(n); ++r) axis_of[g.result(n, r).raw] = static_cast<int>(m->axis);
      run.nodes.push_back(n);
      run.maps.push_back(std::move(*m));
      run.ns.push_back(work_time_ns(node_cost(g, n), Machine{}));
      run.load.push_back(load[plan.step[n.raw]]);
    }
    finish();
  }

  // Whether the node can be in one segment with those before it: it reads no result of theirs whole, or along another axis.
  bool joins(const Run& run, size_t i, const std::map<ValueId, size_t>& axis_of) const {
    for (size_t o = 0; o < run.maps[i].operands.size(); ++o) {
      const ValueId v = g.operand(run.nodes[i], o);
      const auto made = v.valid() ? axis_of.find(v) : axis_of.end();
      if (made == axis_of.end()) continue;
      if (!run.maps[i].operands[o] || run.maps[i].operands[o]->axis != made->second) return false;
    }
    return true;
  }

  void find_cuts(Run* run) const {
    const size_t count = run->nodes.size();
    std::vector<uint64_t> crossing(count + 1);
    for (size_t i = 0; i < count; ++i) crossing[i] = entering[plan.step[run->nodes[i].raw]];
    crossing[count] = entering[plan.step[run->nodes.back().raw] + 1];
    std::map<ValueId, size_t> axis_of;  // of rows made in the run
    for (size_t i = 0; i <= count; ++i) {
      const bool inside = i > 0 && i < count;
      if (!inside || (crossing[i] <= crossing[i - 1] && crossing[i] < crossing[i + 1]) || !joins(*run, i, axis_of)) {
        run->cuts.push_back(i);
        run->crossing.push_back(crossing[i]);
      }
      for (size_t r = 0; i < count && r < g.result_count(run->nodes[i]); ++r)
        axis_of[g.result(run->nodes[i], r)] = run->maps[i].axis;
    }
  }

  struct Choice {
    int64_t parts = 0;  // 0: none fits
    double ns = std::numeric_limits<double>::infinity();
  };

  // The cheapest number of parts for the segment between two cuts of a run.
  Choice choose(size_t r, size_t from, size_t to, uint64_t most) {
    const Run& run = runs[r];
    if (run.crossing[from] > most) return {};
    const size_t begin = run.cuts[from], end = run.cuts[to];
    const std::vector<NodeId> nodes(run.nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                                    run.nodes.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<RowMap> maps(run.maps.begin() + static_cast<std::ptrdiff_t>(begin),
                                   run.maps.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<double> ns(run.ns.begin() + static_cast<std::ptrdiff_t>(begin),
                                 run.ns.begin() + static_cast<std::ptrdiff_t>(end));
    std::vector<Estimate>& known = estimates[{r, from, to}];
    for (size_t p = 0; p < std::size(kParts); ++p) {
      if (p == known.size()) {
        Walk walk(g, plan, blocked, nodes, maps, run.crossing[from]);
        known.push_back(walk.is_possible() ? walk.run(kParts[p], ns) : Estimate{});
      }
      if (known[p].peak == std::numeric_limits<uint64_t>::max()) return {};
      if (known[p].peak <= most) return {kParts[p], known[p].ns};
    }
    return {};
  }

  // The cheapest segments of a run with which no step needs more than `most`. Returns false if there are none.
  bool cover(size_t r, uint64_t most, std::vector<Segment>* out) {
    const Run& run = runs[r];
    struct Best {
      double ns = std::numeric_limits<double>::infinity();
      size_t from = 0;
      int64_t parts = 0;
    };
    std::vector<Best> best(run.cuts.size());
    best[0].ns = 0;
    for (size_t from = 0; from + 1 < run.cuts.size(); ++from) {
      if (best[from].ns == std::numeric_limits<double>::infinity()) continue;
      bool hot = false;
      for (size_t to = from + 1; to < run.cuts.size() && to - from <= kMostCuts; ++to) {
        if (to > from + 1 && run.cuts[to] - run.cuts[from] > kLongest) break;
        for (size_t i = run.cuts[to - 1]; i < run.cuts[to]; ++i) hot |= run.load[i] > most;
        const auto improve = [&](double ns, int64_t parts) {
          if (best[from].ns + ns < best[to].ns) best[to] = {best[from].ns + ns, from, parts};
        };
        if (!hot && to == from + 1) improve(0, 0);
        if (!hot) continue;
        if (const Choice c = choose(r, from, to, most); c.parts > 0) improve(c.ns, c.parts);
      }
    }
    if (best.back().ns == std::numeric_limits<double>::infinity()) return false;
    std::vector<Segment> found;
    for (size_t to = run.cuts.size() - 1; to > 0; to = best[to].from) {
      if (best[to].parts == 0) continue;
      Segment s;
      s.parts = best[to].parts;
      for (size_t i = run.cuts[best[to].from]; i < run.cuts[to]; ++i) {
        s.nodes.push_back(run.nodes[i]);
        s.maps.push_back(run.maps[i]);
      }
      found.push_back(std::move(s));
    }
    out->insert(out->end(), found.rbegin(), found.rend());
    return true;
  }

  const Graph& g;
  const GraphPlan& plan;
  const bool blocked;
  std::vector<uint64_t> load, entering;  // by step: bytes live in it, and before and in it
  std::vector<bool> in_run;              // by step
  std::vector<Run> runs;
  std::map<std::tuple<size_t, size_t, size_t>, std::vector<Estimate>> estimates;  // by run and cuts: for each of kParts
};

PatchSearch::PatchSearch(const Graph& g, const GraphPlan& plan, bool blocked)
    : state_(std::make_unique<State>(g, plan, blocked)) {}
PatchSearch::~PatchSearch() = default;

std::vector<Segment> PatchSearch::segments(uint64_t most) {
  for (size_t t = 0; t < state_->in_run.size(); ++t)
    if (!state_->in_run[t] && state_->load[t] > most) return {};
  std::vector<Segment> out;
  for (size_t r = 0; r < state_->runs.size(); ++r)
    if (std::ranges::any_of(state_->runs[r].load, [&](uint64_t bytes) { return bytes > most; }) && !state_->cover(r, most, &out))
      return {};
  return out;
}

namespace {

class Patches {
 public:
  Patches(Graph& g, const Segment& s) : g_(g), s_(s), rows_(g, s.nodes, s.maps), b_(g, nullptr, g.next(s.nodes.back())) {}

  std::optional<PatchedSegment> run() {
    report_ = {g_.label(s_.nodes.front()), g_.label(s_.nodes.back()), static_cast<uint32_t>(s_.nodes.size()),
               static_cast<uint32_t>(s_.parts)};
    double flops = 0, all_flops = 0;
    for (NodeId n : s_.nodes) flops += node_cost(g_, n).flops;
    for (int64_t part = 0; part < s_.parts; ++part)
      if (!rows_.set(part, s_.parts) || !make(part, &all_flops)) return std::nullopt;
    report_.flops = static_cast<uint64_t>(flops);
    report_.flops_again = static_cast<uint64_t>(std::max(all_flops - flops, 0.0));
    for (size_t i = 0; i < s_.nodes.size(); ++i)
      for (ValueId v : rows_.outputs(i)) {
        const ValueId joined = b_.concat(parts_of_[v], static_cast<int64_t>(s_.maps[i].axis));
        if (!joined.valid() || g_.type_id(joined) != g_.type_id(v)) return std::nullopt;
        g_.set_origin(g_.def(joined), g_.origin(s_.nodes[i]));
        if (!is_outer(g_, v, s_.maps[i].axis)) report_.bytes_copied += bytes_of(g_, v);
        g_.replace_all_uses(v, joined);
      }
    for (size_t i = s_.nodes.size(); i-- > 0;) g_.erase(s_.nodes[i]);
    return report_;
  }

 private:
  bool make(int64_t part, double* flops) {
    part_.clear();
    cut_.clear();
    for (size_t i = 0; i < s_.nodes.size(); ++i) {
      if (rows_.rows(i).size() == 0) continue;
      const NodeId n = s_.nodes[i];
      std::vector<ValueId> operands(g_.operands(n).begin(), g_.operands(n).end());
      for (size_t o = 0; o < operands.size(); ++o)
        if (operands[o].valid() && s_.maps[i].operands[o])
          operands[o] = cut(operands[o], s_.maps[i].operands[o]->axis, rows_.read(i, o));
      b_.set_node_name(g_.module().symbol(g_.label(n).bytes() + "." + std::to_string(part)));
      const NodeId copy = b_.create_node(g_.op(n), operands, attrs_of_rows(g_, n, s_.maps[i], rows_.rows(i)));
      b_.set_node_name({});
      if (!copy.valid() || !is_part(n, copy, i)) return false;
      g_.set_origin(copy, g_.origin(n));
      *flops += node_cost(g_, copy).flops;
      for (size_t r = 0; r < g_.result_count(n); ++r) part_[g_.result(n, r)] = g_.result(copy, r);
      for (ValueId v : rows_.outputs(i)) {
        const ValueId own = cut(v, s_.maps[i].axis, rows_.own(i, part, s_.parts));
        if (!own.valid()) return false;
        parts_of_[v].push_back(own);
      }
    }
    return true;
  }

  // These rows of the whole value, of which the part may have more.
  ValueId cut(ValueId v, size_t axis, RowRange want) {
    const auto from = rows_.maker(v);
    const RowRange have = from ? rows_.rows(*from) : RowRange{0, rows_of(g_, v, axis)};
    const ValueId x = from ? part_.at(v) : v;
    if (want == have) return x;
    ValueId& made = cut_[{v, want.begin, want.end}];
    if (made.valid()) return made;
    made = b_.narrow(x, static_cast<int64_t>(axis), Dim(want.begin - have.begin), Dim(want.size()));
    if (made.valid()) g_.set_origin(g_.def(made), g_.origin(g_.def(x)));
    if (!is_outer(g_, v, axis)) report_.bytes_copied += made.valid() ? bytes_of(g_, made) : 0;
    return made;
  }

  // Whether the results of the copy are the rows of the node's results.
  bool is_part(NodeId n, NodeId copy, size_t i) const {
    for (size_t r = 0; r < g_.result_count(n); ++r) {
      const Type &whole = g_.type(g_.result(n, r)), &own = g_.type(g_.result(copy, r));
      std::vector<Dim> dims(whole.dims.begin(), whole.dims.end());
      dims[s_.maps[i].axis] = Dim(rows_.rows(i).size());
      if (own.dtype != whole.dtype || !std::ranges::equal(own.dims, dims)) return false;
    }
    return true;
  }

  Graph& g_;
  const Segment& s_;
  PartRows rows_;
  Builder b_;
  PatchedSegment report_;
  std::map<ValueId, ValueId> part_;  // of the current part
  std::map<std::tuple<ValueId, int64_t, int64_t>, ValueId> cut_;
  std::map<ValueId, std::vector<ValueId>> parts_of_;  // of results of the segment
};

}  // namespace

std::optional<std::vector<PatchedSegment>> run_in_patches(Graph& g, const std::vector<Segment>& segments) {
  std::vector<PatchedSegment> out;
  for (const Segment& s : segments) {
    auto made = Patches(g, s).run();
    if (!made) return std::nullopt;
    out.push_back(std::move(*made));
  }
  return out;
}

}  // namespace rlxc
