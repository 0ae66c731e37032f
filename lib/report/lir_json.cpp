#include "report/lir_json.h"

#include "ir/text_order.h"
#include "report/module_terms.h"

namespace rlxc::report {
namespace {

class LirWriter {
 public:
  LirWriter(const LirModule& lir, JsonWriter& out) : lir_(lir), module_(*lir.module), out_(out), terms_(module_, out) {}

  ModuleTerms& terms() { return terms_; }

  void run(const ReportContext& context) {
    out_.begin_object();
    write_header(out_, "lir", context, kLirVersion);
    out_.key("module").string(module_.name);
    out_.key("fingerprint").string(lir_.fingerprint.hex());
    out_.key("alignment").unsigned_integer(lir_.alignment);
    terms_.symbols();
    terms_.ranges(lir_.ranges);
    extents();
    io();
    out_.key("graphs").begin_array();
    for (size_t i = 0; i < module_.graph_count(); ++i) graph(module_.graph(GraphId(i)), lir_.plans[i]);
    out_.end_array();
    terms_.constants();
    out_.end_object().finish();
  }

 private:
  // Data-dependent dims with their defining nodes and bounds.
  void extents() {
    out_.key("extents").begin_array();
    for (const DataDependentDim& e : lir_.extents) {
      out_.begin_object(JsonLayout::Line).key("symbol").string(e.symbol);
      out_.key("graph").unsigned_integer(e.graph.raw).key("node").unsigned_integer(e.node.raw);
      if (e.bound) {
        out_.key("bound");
        terms_.size(*e.bound);
      }
      out_.end_object();
    }
    out_.end_array();
  }

  // Inputs and outputs of the compiled model.
  void io() {
    const Graph& g = module_.main();
    const GraphPlan& plan = lir_.plans[0];
    const auto port = [&](ValueId v, Symbol name) {
      out_.begin_object(JsonLayout::Line).key("name").string(name.valid() ? module_.bytes(name) : std::string_view());
      out_.key("value");
      terms_.value(v);
      out_.key("type");
      terms_.type(g.type_id(v));
      out_.key("bytes");
      terms_.size(plan.slot[v.raw].size);
      out_.end_object();
    };
    out_.key("io").begin_object();
    out_.key("inputs").begin_array();
    for (NodeId n : g.inputs()) port(g.result(n), g.value_name(g.result(n)));
    out_.end_array();
    out_.key("outputs").begin_array();
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      const Symbol name = g.output_name(i);
      port(g.outputs()[i], name.valid() ? name : g.value_name(g.outputs()[i]));
    }
    out_.end_array();
    out_.end_object();
  }

  void graph(const Graph& g, const GraphPlan& plan) {
    out_.begin_object();
    out_.key("id").unsigned_integer(g.id().raw);
    out_.key("name").string(g.name().bytes());
    out_.key("inputs").begin_array(JsonLayout::Line);
    for (NodeId n : g.inputs()) terms_.value(g.result(n));
    out_.end_array();
    out_.key("outputs");
    terms_.values(g.outputs());
    out_.key("arena_bytes");
    terms_.size(plan.arena_size);
    out_.key("packed_bytes");
    terms_.size(plan.packed_size);
    out_.key("nodes").begin_array();
    for (NodeId n : text_order(g)) node(g, plan, n);
    out_.end_array();
    out_.key("buffers").begin_array();
    for (size_t i = 0; i < g.node_capacity(); ++i)
      if (const NodeId n(i); g.alive(n))
        for (size_t r = 0; r < g.result_count(n); ++r) buffer(plan, g.result(n, r));
    out_.end_array();
    out_.end_object();
  }

  void node(const Graph& g, const GraphPlan& plan, NodeId n) {
    out_.begin_object(JsonLayout::Line);
    terms_.node(g, n);
    if (!g.bodies(n).empty() && n.raw < plan.body_offset.size()) {
      out_.key("body_offset");
      terms_.size(plan.body_offset[n.raw]);
    }
    out_.key("phase").string(rlxc::name(plan.phase[n.raw]));
    out_.key("step").unsigned_integer(plan.step[n.raw]);
    terms_.provenance(g, n, true);
    out_.end_object();
  }

  void buffer(const GraphPlan& plan, ValueId v) {
    const Slot& s = plan.slot[v.raw];
    if (s.region == Region::None) return;
    out_.begin_object(JsonLayout::Line).key("value").unsigned_integer(v.raw);
    out_.key("region").string(rlxc::name(s.region));
    if (is_of_caller(s.region)) out_.key("index").unsigned_integer(s.index);
    out_.key("offset");
    terms_.size(s.offset);
    out_.key("bytes");
    terms_.size(s.size);
    if (s.root.valid() && s.root != v) {
      out_.key("root");
      terms_.value(s.root);
    }
    if (s.view) out_.key("view").boolean(true);
    if (s.in_place) out_.key("in_place").boolean(true);
    if (s.part) out_.key("part").boolean(true);
    if (const Layout* l = plan.layouts.of(v)) value_layout(*l);
    out_.key("life").begin_array(JsonLayout::Line).unsigned_integer(s.first_step).unsigned_integer(s.last_step).end_array();
    out_.end_object();
  }

  // Only for values that are not row-major.
  void value_layout(const Layout& l) {
    out_.key("layout").begin_array(JsonLayout::Line);
    for (const auto& axis : l.axes) {
      out_.begin_array(JsonLayout::Line);
      for (const DimFactor& p : axis) {
        out_.begin_array(JsonLayout::Line);
        terms_.size(p.size);
        terms_.size(p.stride);
        out_.end_array();
      }
      out_.end_array();
    }
    out_.end_array();
    if (l.starts.empty()) return;
    out_.key("starts").begin_array(JsonLayout::Line);
    for (Dim d : l.starts) terms_.size(d);
    out_.end_array();
  }

  const LirModule& lir_;
  const Module& module_;
  JsonWriter& out_;
  ModuleTerms terms_;
};

}  // namespace

void write_lir(const LirModule& lir, JsonWriter& out, const ReportContext& context) {
  write_document(*lir.module, out, context, [&](JsonWriter& w) { return LirWriter(lir, w); });
}

}  // namespace rlxc::report
