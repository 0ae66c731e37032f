#include "report/fusion.h"

#include "analysis/cost.h"
#include "passes/provenance.h"
#include "report/fusion_facts.h"
#include "report/module_terms.h"
#include "report/plan_json.h"

namespace rlxc::report {
namespace {

class FusionWriter {
 public:
  FusionWriter(const FusionReport& report, JsonWriter& out)
      : report_(report), out_(out), summary_(report.decisions), facts_(report.result, report.decisions) {
    if (const auto corners = corner_sizes(report.result); !corners.empty()) sizes_ = corners.back();
  }

  void run(const ReportContext& context) {
    out_.begin_object();
    write_header(out_, "fusion", context, kFusionVersion);
    summary();
    ops();
    patterns();
    if (!sizes_.empty()) {
      out_.key("at_sizes").begin_object(JsonLayout::Line);
      for (const auto& [name, size] : sizes_) out_.key(name).integer(size);
      out_.end_object();
    }
    for (const bool fused : {true, false}) {
      out_.key(fused ? "formed" : "declined").begin_array();
      for (const Decision& d : report_.decisions)
        if (d.fused == fused) decision(d);
      out_.end_array();
    }
    out_.key("no_kernel").begin_array(JsonLayout::Line);
    for (OpKind op : report_.no_kernel) out_.string(kind_name(op));
    out_.end_array();
    launches();
    intermediates();
    out_.end_object().finish();
  }

 private:
  void change(std::string_view name, int64_t before, int64_t after) {
    out_.key(name).begin_object(JsonLayout::Line).key("before").integer(before).key("after").integer(after).end_object();
  }

  void summary() {
    const DecisionTotals& all = summary_.all;
    out_.key("summary").begin_object();
    change("nodes", report_.before.nodes, report_.after.nodes);
    change("launches", report_.before.launches, report_.after.launches);
    change("traffic", report_.before.traffic, report_.after.traffic);
    out_.key("formed").integer(all.formed);
    out_.key("declined").integer(all.declined);
    out_.key("launches_saved").integer(all.launches);
    out_.key("bytes_saved").integer(all.bytes);
    out_.end_object();
  }

  void ops() {
    out_.key("ops").begin_array();
    for (size_t k = 0; k < report_.before.ops.size(); ++k) {
      const int64_t before = report_.before.ops[k], after = report_.after.ops[k];
      if (before == 0 && after == 0) continue;
      out_.begin_object(JsonLayout::Line).key("op").string(kind_name(static_cast<OpKind>(k)));
      out_.key("before").integer(before).key("after").integer(after).end_object();
    }
    out_.end_array();
  }

  void patterns() {
    out_.key("patterns").begin_array();
    for (const auto& [pattern, t] : summary_.patterns) {
      out_.begin_object(JsonLayout::Line).key("pattern").string(pattern);
      out_.key("formed").integer(t.formed).key("declined").integer(t.declined);
      out_.key("launches_saved").integer(t.launches).key("bytes_saved").integer(t.bytes).end_object();
    }
    out_.end_array();
    out_.key("reasons").begin_array();
    for (const auto& [key, list] : summary_.declined) {
      out_.begin_object(JsonLayout::Line).key("pattern").string(std::get<0>(key)).key("reason").string(std::get<1>(key));
      out_.key("count").unsigned_integer(list.size()).end_object();
    }
    out_.end_array();
  }

  void decision(const Decision& d) {
    out_.begin_object(JsonLayout::Line).key("pattern").string(d.pattern).key("node").string(report_.result.module->bytes(d.node));
    if (d.graph.valid()) out_.key("graph").unsigned_integer(d.graph.raw);
    if (!d.fused) out_.key("reason").string(d.reason);
    if (!d.members.empty()) symbols("members", d.members);
    if (!d.detail.empty()) out_.key("detail").string(d.detail);
    if (!d.hint.empty()) out_.key("hint").string(d.hint);
    if (d.fused || d.launches_saved) out_.key("launches_saved").integer(d.launches_saved);
    if (d.fused || d.bytes_saved) out_.key("bytes_saved").integer(d.bytes_saved);
    out_.end_object();
  }

  void name(const Graph& g, const std::vector<NodeId>& nodes) {
    const NodeId n = nodes.front();
    if (g.node_name(n).valid()) out_.key("name").string(g.module().bytes(g.node_name(n)));
    if (nodes.size() > 1) return origin(merged_origin(g, nodes), g.node_name(n));
    if (g.origin(n).valid()) origin(g.module().origin(g.origin(n)), g.node_name(n));
  }
  void origin(const Origin& o, Symbol name) {
    const bool only_itself = o.sources.size() == 1 && o.sources[0] == name;
    if (!o.sources.empty() && !only_itself) symbols("members", o.sources);
    if (!o.passes.empty()) symbols("passes", o.passes);
  }
  void symbols(std::string_view key, const std::vector<Symbol>& list) {
    out_.key(key).begin_array(JsonLayout::Line);
    for (Symbol s : list) out_.string(report_.result.module->bytes(s));
    out_.end_array();
  }

  void launches() {
    out_.key("launches").begin_array();
    for (const LaunchFacts::Launch& l : facts_.launches) {
      const Graph& g = report_.result.module->graph(l.graph);
      const NodeId first = l.nodes.front();
      Cost cost, at_sizes;
      for (NodeId n : l.nodes) {
        cost += node_cost(g, n);
        if (!sizes_.empty()) at_sizes += node_cost(g, n, &sizes_);
      }
      out_.begin_object(JsonLayout::Line).key("node").unsigned_integer(first.raw);
      if (l.graph.raw) out_.key("graph").unsigned_integer(l.graph.raw);
      out_.key("op").string(kind_name(g.op(first)));
      name(g, l.nodes);
      if (l.nodes.size() > 1) {
        out_.key("launch").string(g.module().bytes(g.launch(first)));
        out_.key("nodes").begin_array(JsonLayout::Line);
        for (NodeId n : l.nodes) out_.unsigned_integer(n.raw);
        out_.end_array();
      }
      work(cost);
      if (!sizes_.empty()) {
        out_.key("at_sizes").begin_object(JsonLayout::Line);
        work(at_sizes);
        out_.end_object();
      }
      out_.end_object();
    }
    out_.end_array();
  }

  void work(const Cost& c) {
    out_.key("reads").integer(c.bytes_read).key("writes").integer(c.bytes_written).key("flops").number(c.flops);
  }

  void intermediates() {
    out_.key("intermediate_values").begin_array();
    for (const IntermediateValue& h : facts_.intermediates) {
      out_.begin_object(JsonLayout::Line).key("value").unsigned_integer(h.value.raw);
      if (h.graph.raw) out_.key("graph").unsigned_integer(h.graph.raw);
      out_.key("from").unsigned_integer(h.from.raw);
      out_.key("to").begin_array(JsonLayout::Line);
      for (NodeId n : h.to) out_.unsigned_integer(n.raw);
      out_.end_array();
      out_.key("bytes").integer(h.bytes);
      if (!h.decisions.empty()) {
        out_.key("declined").begin_array(JsonLayout::Line);
        for (const Decision* d : h.decisions) out_.string(d->pattern + ": " + d->reason);
        out_.end_array();
      }
      out_.end_object();
    }
    out_.end_array();
  }

  const FusionReport& report_;
  JsonWriter& out_;
  DecisionSummary summary_;
  LaunchFacts facts_;
  DimBindings sizes_;  // of symbols, at which the work of launches is written too; empty: none
};

}  // namespace

void write_fusion(const FusionReport& report, JsonWriter& out, const ReportContext& context) {
  FusionWriter(report, out).run(context);
}

}  // namespace rlxc::report
