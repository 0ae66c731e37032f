#include "report/graph_boxes.h"

#include <algorithm>
#include <array>
#include <map>

#include "report/repeats.h"
#include "report/svg.h"
#include "support/number.h"

namespace rlxc::report {
namespace {

constexpr size_t kFewestParts = 20;  // fewer parts are not informative
constexpr size_t kStepParts = 600;
constexpr size_t kMostInFull = 250;   // nodes of a graph whose repeated layers are all drawn
constexpr size_t kLeastRepeated = 8;  // nodes that one box may stand for
constexpr size_t kDeepest = 16;

// The scope of a name: the part before its last component. Components end at '/' and '.'.
std::string_view scope_of(std::string_view name) {
  size_t end = name.rfind('/');
  if (end == name.npos) end = name.rfind('.');
  return end == name.npos ? std::string_view() : name.substr(0, end);
}

// The ends of the first kDeepest components of a scope.
size_t component_ends(std::string_view scope, std::array<size_t, kDeepest>* ends) {
  size_t count = 0;
  for (size_t i = 1; i <= scope.size() && count < kDeepest; ++i)
    if ((i == scope.size() || scope[i] == '/' || scope[i] == '.') && scope[i - 1] != '/' && scope[i - 1] != '.')
      (*ends)[count++] = i;
  return count;
}

std::string_view scope_prefix(std::string_view scope, size_t level) {
  std::array<size_t, kDeepest> ends{};
  const size_t count = component_ends(scope, &ends);
  return count == 0 || level == 0 ? std::string_view() : scope.substr(0, ends[std::min(count, level) - 1]);
}

class BoxMaker {
 public:
  explicit BoxMaker(const LirModule& lir) : lir_(lir), graph_(lir.module->main()) {}

  GraphBoxes run() {
    const GraphPlan& plan = lir_.plans[0];
    for (NodeId n : graph_.nodes()) {
      const OpKind op = graph_.op(n);
      const bool once = n.raw < plan.phase.size() && plan.phase[n.raw] == Phase::Prologue && !graph_.operands(n).empty();
      if (op != OpKind::Param && op != OpKind::Constant && !once) shown_.push_back(n);
    }
    box_of_.assign(graph_.node_capacity(), kNone);
    if (shown_.size() <= kMostBoxes) {
      layers();
    } else {
      parts();
    }
    edges();
    for (ValueId v : graph_.outputs())
      if (v.valid() && box_of_[graph_.def(v).raw] != kNone) out_.boxes[box_of_[graph_.def(v).raw]].is_output = true;
    return std::move(out_);
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  std::string_view name_of(NodeId n) const {
    const Module& m = *lir_.module;
    if (graph_.node_name(n).valid()) return m.bytes(graph_.node_name(n));
    if (graph_.origin(n).valid() && !m.origin(graph_.origin(n)).sources.empty())
      return m.bytes(m.origin(graph_.origin(n)).sources.front());
    return {};
  }

  void node_box(NodeId n) {
    const Module& m = *lir_.module;
    GraphBox box;
    box.op = graph_.op(n);
    box.head = kind_name(box.op);
    box.label = graph_.label(n).line();
    box.small = box.op == OpKind::Input || lir_.plans[0].layouts.is_view(graph_, n);
    for (size_t r = 0; r < graph_.result_count(n); ++r)
      box.type += (r ? ", " : "") + text(graph_.type(graph_.result(n, r)), m.dims);
    box.tooltip = box.head + " \"" + box.label + "\"\n" + box.type;
    for (const auto& [field, value] : attr_fields(m.attrs[graph_.attr_id(n)], m.dims, false, box.op)) {
      box.tooltip += "\n" + field + " = ";
      const std::string* s = std::get_if<std::string>(&value);
      box.tooltip += s ? ForeignText(*s).line() : short_list(value);
    }
    if (graph_.launch(n).valid()) box.tooltip += "\nin launch " + m.text(graph_.launch(n)).line();
    for (GraphId b : graph_.bodies(n))
      box.tooltip += "\nbody @" + m.graph(b).name().line() + ": " + grouped(m.graph(b).live_nodes()) + " nodes";
    if (graph_.origin(n).valid()) {
      const Origin& o = m.origin(graph_.origin(n));
      if (o.sources.size() > 1) box.tooltip += "\nfrom " + listed(o.sources);
      if (!o.passes.empty()) box.tooltip += "\nby " + listed(o.passes);
    }
    box_of_[n.raw] = static_cast<uint32_t>(out_.boxes.size());
    out_.boxes.push_back(std::move(box));
  }

  // A box per node; of repeated layers, the first in full and one box for the others.
  void layers() {
    std::map<std::string, uint32_t> kinds;
    std::vector<uint32_t> items;
    for (NodeId n : shown_) {
      std::string kind(kind_name(graph_.op(n)));
      for (size_t r = 0; r < graph_.result_count(n); ++r) kind += " " + std::to_string(graph_.type_id(graph_.result(n, r)).raw);
      kind += " " + std::to_string(graph_.operands(n).size());
      items.push_back(kinds.try_emplace(kind, static_cast<uint32_t>(kinds.size())).first->second);
    }
    const std::vector<Repeat> runs = shown_.size() > kMostInFull ? repeats(items, kLeastRepeated) : std::vector<Repeat>();
    size_t i = 0;
    for (const Repeat& r : runs) {
      for (; i < r.start + r.length; ++i) node_box(shown_[i]);
      const size_t end = r.start + r.length * r.count;
      part(i, end, {});
      GraphBox& box = out_.boxes.back();
      box.head = r.count == 2 ? "layer 2" : "layers 2 to " + std::to_string(r.count);
      box.label = "the same " + std::to_string(r.length) + " nodes" +
                  (r.count == 2 ? " again" : ", " + std::to_string(r.count - 1) + " times");
      i = end;
    }
    for (; i < shown_.size(); ++i) node_box(shown_[i]);
    if (!runs.empty()) out_.grouping = "repeated layers are drawn once";
  }

  struct ValueText {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return shortest(v); }
    std::string operator()(const std::string& v) const { return ForeignText(v).line(); }
    template <class T>
    std::string operator()(const std::vector<T>& list) const {
      std::string s = "[";
      for (size_t i = 0; i < list.size() && i < 8; ++i) s += (i ? ", " : "") + (*this)(list[i]);
      return s + (list.size() > 8 ? ", ...]" : "]");
    }
  };
  static std::string short_list(const AttrValue& v) { return std::visit(ValueText{}, v); }

  std::string listed(const std::vector<Symbol>& symbols) const {
    std::string s;
    for (size_t i = 0; i < symbols.size() && i < 12; ++i) s += (i ? ", " : "") + lir_.module->text(symbols[i]).line();
    return symbols.size() > 12 ? s + " and " + std::to_string(symbols.size() - 12) + " more" : s;
  }

  // The deepest level with fewer than kMostBoxes runs of nodes that share a scope prefix; 0 if the runs are too few. Neighbours
  // with c common components have a boundary at every level above c.
  size_t best_level() const {
    std::array<size_t, kDeepest + 1> boundaries{};
    std::array<size_t, kDeepest> a{}, b{};
    std::string_view last;
    bool first = true;
    for (NodeId n : shown_) {
      const std::string_view name = name_of(n);
      if (name.empty()) continue;  // belongs to the surrounding run
      const std::string_view scope = scope_of(name);
      if (!first && scope != last) {
        const size_t x = component_ends(last, &a), y = component_ends(scope, &b);
        size_t common = 0;
        while (common < x && common < y && last.substr(0, a[common]) == scope.substr(0, b[common])) ++common;
        if (common < x || common < y) ++boundaries[common];
      }
      last = scope;
      first = false;
    }
    size_t level = 0, runs = 1;
    for (size_t l = 1; l <= kDeepest && runs + boundaries[l - 1] < kMostBoxes; ++l) {
      runs += boundaries[l - 1];
      if (boundaries[l - 1] > 0) level = l;
    }
    return runs >= kFewestParts ? level : 0;
  }

  void parts() {
    const size_t level = best_level();
    const size_t length = (shown_.size() + kStepParts - 1) / kStepParts;
    out_.grouping = level ? "by name scope, " + std::to_string(level) + (level == 1 ? " level" : " levels") + " deep"
                          : "by order, " + grouped(length) + " nodes each";
    std::string_view last;
    size_t begin = 0;
    for (size_t i = 0; i < shown_.size(); ++i) {
      bool cut = false;
      if (level) {
        const std::string_view name = name_of(shown_[i]);
        const std::string_view prefix = name.empty() ? last : scope_prefix(scope_of(name), level);
        cut = prefix != last;
        if (cut && i > begin) {
          part(begin, i, last);
          begin = i;
        }
        last = prefix;
      } else if (i - begin == length) {
        part(begin, i, {});
        begin = i;
      }
    }
    part(begin, shown_.size(), last);
  }

  void part(size_t begin, size_t end, std::string_view scope) {
    if (end - begin == 1) return node_box(shown_[begin]);
    std::array<uint32_t, kOpCount> count{};
    for (size_t i = begin; i < end; ++i) {
      ++count[static_cast<size_t>(graph_.op(shown_[i]))];
      box_of_[shown_[i].raw] = static_cast<uint32_t>(out_.boxes.size());
    }
    std::vector<OpKind> kinds;
    for (int k = 0; k < kOpCount; ++k)
      if (count[static_cast<size_t>(k)]) kinds.push_back(static_cast<OpKind>(k));
    // The colour of a part is that of its heavy ops, else of the most frequent op.
    std::stable_sort(kinds.begin(), kinds.end(), [&](OpKind a, OpKind b) {
      if (has_trait(a, kBlas) != has_trait(b, kBlas)) return has_trait(a, kBlas);
      return count[static_cast<size_t>(a)] > count[static_cast<size_t>(b)];
    });
    GraphBox box;
    box.is_part = true;
    box.op = kinds.front();
    box.head = scope.empty() ? graph_.label(shown_[begin]).line() + " ..." : ForeignText(scope).line();
    box.label = grouped(end - begin) + " nodes";
    for (size_t i = 0; i < kinds.size() && i < 3; ++i)
      box.type += (i ? ", " : "") + grouped(count[static_cast<size_t>(kinds[i])]) + " " + std::string(kind_name(kinds[i]));
    box.tooltip =
        box.head + "\n" + box.label + ", " + graph_.label(shown_[begin]).line() + " to " + graph_.label(shown_[end - 1]).line();
    for (size_t i = 0; i < kinds.size() && i < 10; ++i)
      box.tooltip += "\n" + grouped(count[static_cast<size_t>(kinds[i])]) + " " + std::string(kind_name(kinds[i]));
    out_.boxes.push_back(std::move(box));
  }

  void edges() {
    for (NodeId n : shown_)
      for (ValueId v : graph_.operands(n)) {
        if (!v.valid()) continue;
        const uint32_t from = box_of_[graph_.def(v).raw], to = box_of_[n.raw];
        if (from != kNone && from != to) out_.edges.emplace_back(from, to);
      }
    std::sort(out_.edges.begin(), out_.edges.end());
    out_.edges.erase(std::unique(out_.edges.begin(), out_.edges.end()), out_.edges.end());
  }

  const LirModule& lir_;
  const Graph& graph_;
  std::vector<NodeId> shown_;
  std::vector<uint32_t> box_of_;  // by node
  GraphBoxes out_;
};

}  // namespace

GraphBoxes graph_boxes(const LirModule& lir) { return BoxMaker(lir).run(); }

}  // namespace rlxc::report
