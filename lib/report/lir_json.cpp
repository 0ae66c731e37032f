#include "report/lir_json.h"

#include "report/module_terms.h"

namespace rlxc::report {
namespace {

class LirWriter {
 public:
  LirWriter(const LirModule& lir, JsonWriter& out) : lir_(lir), module_(*lir.module), out_(out), terms_(module_, out) {}

  void run(const ReportContext& context) {
    out_.begin_object();
    write_header(out_, "lir", context);
    out_.key("module").string(module_.name);
    out_.key("fingerprint").string(lir_.fingerprint.hex());
    out_.key("alignment").unsigned_integer(lir_.alignment);
    terms_.symbols();
    io();
    out_.key("graphs").begin_array();
    for (size_t i = 0; i < module_.graph_count(); ++i) graph(module_.graph(GraphId(i)), lir_.plans[i]);
    out_.end_array();
    constants();
    out_.end_object().finish();
  }

 private:
  // What the caller of the compiled model gives and gets.
  void io() {
    const Graph& g = module_.main();
    const GraphPlan& plan = lir_.plans[0];
    const auto port = [&](ValueId v, Symbol name) {
      out_.begin_object(JsonLayout::Line).key("name").string(name.valid() ? module_.text(name) : std::string_view());
      out_.key("value"), terms_.value(v);
      out_.key("type"), terms_.type(g.type_id(v));
      out_.key("bytes"), terms_.size(plan.slot[v.raw].size);
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
    out_.key("name").string(g.name());
    out_.key("inputs").begin_array(JsonLayout::Line);
    for (NodeId n : g.inputs()) terms_.value(g.result(n));
    out_.end_array();
    out_.key("outputs"), terms_.values(g.outputs());
    out_.key("arena_bytes"), terms_.size(plan.arena_size);
    out_.key("packed_bytes"), terms_.size(plan.packed_size);
    out_.key("nodes").begin_array();
    for (size_t i = 0; i < g.node_capacity(); ++i)
      if (const NodeId n(i); g.alive(n) && n != g.terminator()) node(g, plan, n);
    out_.end_array();
    out_.key("buffers").begin_array();
    for (size_t i = 0; i < g.node_capacity(); ++i)
      if (const NodeId n(i); g.alive(n))
        for (size_t r = 0; r < g.result_count(n); ++r) buffer(plan, g.result(n, r));
    out_.end_array();
    out_.end_object();
  }

  void node(const Graph& g, const GraphPlan& plan, NodeId n) {
    out_.begin_object(JsonLayout::Line).key("id").unsigned_integer(n.raw);
    out_.key("op").string(kind_name(g.op(n)));
    if (g.node_name(n).valid()) out_.key("name"), terms_.name(g.node_name(n));
    if (!g.operands(n).empty()) out_.key("operands"), terms_.values(g.operands(n));
    const AttrId a = g.attr_id(n);
    if (terms_.has_attrs(a)) out_.key("attrs"), terms_.attrs(a, g.op(n));
    out_.key("results").begin_array(JsonLayout::Line);
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      out_.begin_array(JsonLayout::Line).unsigned_integer(v.raw);
      terms_.type(g.type_id(v));
      if (g.value_name(v).valid()) terms_.name(g.value_name(v));
      out_.end_array();
    }
    out_.end_array();
    if (!g.bodies(n).empty()) {
      out_.key("bodies").begin_array(JsonLayout::Line);
      for (GraphId b : g.bodies(n)) out_.unsigned_integer(b.raw);
      out_.end_array();
      if (n.raw < plan.body_offset.size()) out_.key("body_offset"), terms_.size(plan.body_offset[n.raw]);
    }
    out_.key("phase").string(rlxc::name(plan.phase[n.raw]));
    out_.key("step").unsigned_integer(plan.step[n.raw]);
    if (g.origin(n).valid()) {
      const Origin& origin = module_.origin(g.origin(n));
      const bool only_itself = origin.sources.size() == 1 && origin.sources[0] == g.node_name(n);
      if (!origin.sources.empty() && !only_itself) out_.key("sources"), terms_.names(origin.sources);
      if (!origin.passes.empty()) out_.key("passes"), terms_.names(origin.passes);
    }
    out_.end_object();
  }

  void buffer(const GraphPlan& plan, ValueId v) {
    const Slot& s = plan.slot[v.raw];
    if (s.region == Region::None) return;
    out_.begin_object(JsonLayout::Line).key("value").unsigned_integer(v.raw);
    out_.key("region").string(rlxc::name(s.region));
    if (s.region == Region::Input || s.region == Region::Output) out_.key("index").unsigned_integer(s.index);
    out_.key("offset"), terms_.size(s.offset);
    out_.key("bytes"), terms_.size(s.size);
    if (s.root.valid() && s.root != v) out_.key("root"), terms_.value(s.root);
    if (s.view) out_.key("view").boolean(true);
    if (s.in_place) out_.key("in_place").boolean(true);
    out_.key("life").begin_array(JsonLayout::Line).unsigned_integer(s.first_step).unsigned_integer(s.last_step).end_array();
    out_.end_object();
  }

  void constants() {
    std::vector<bool> used(module_.data.size());
    for (size_t i = 0; i < module_.graph_count(); ++i) {
      const Graph& g = module_.graph(GraphId(i));
      for (NodeId n : g.nodes())
        if (const auto* a = std::get_if<DataAttrs>(&module_.attrs[g.attr_id(n)]); a && a->data.valid()) used[a->data.raw] = true;
    }
    out_.key("constants").begin_array();
    for (size_t i = 0; i < used.size(); ++i)
      if (used[i]) constant(i, module_.data[DataId(i)]);
    out_.end_array();
  }

  void constant(size_t id, const TensorData& d) {
    out_.begin_object(JsonLayout::Line).key("id").unsigned_integer(id);
    out_.key("dtype").string(rlxc::name(d.dtype));
    out_.key("dims").begin_array(JsonLayout::Line);
    for (int64_t n : d.dims) out_.integer(n);
    out_.end_array();
    if (d.file.empty()) {
      Hash128 h;
      h.update(d.bytes);
      for (const std::string& s : d.strings) h.update_text(s);
      out_.key("hash").string(h.hex());
    }
    terms_.contents(d);
    out_.end_object();
  }

  const LirModule& lir_;
  const Module& module_;
  JsonWriter& out_;
  ModuleTerms terms_;
};

}  // namespace

void write_lir(const LirModule& lir, JsonWriter& out, const ReportContext& context) { LirWriter(lir, out).run(context); }

}  // namespace rlxc::report
