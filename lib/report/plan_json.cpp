#include "report/plan_json.h"

#include <algorithm>
#include <array>

#include "report/module_terms.h"
#include "report/slots.h"

namespace rlxc::report {
namespace {

constexpr std::array kRegions = {Region::Input,   Region::Output, Region::State,
                                 Region::Weights, Region::Packed, Region::Activations};

class PlanWriter {
 public:
  PlanWriter(const LirModule& lir, JsonWriter& out) : lir_(lir), module_(*lir.module), out_(out), terms_(module_, out) {}

  ModuleTerms& terms() { return terms_; }

  void run(const ReportContext& context) {
    const Graph& g = module_.main();
    const GraphPlan& plan = lir_.plans[0];
    out_.begin_object();
    write_header(out_, "plan", context, kPlanVersion);
    out_.key("fingerprint").string(lir_.fingerprint.hex());
    out_.key("alignment").unsigned_integer(lir_.alignment);
    out_.key("symbolic").boolean(plan.symbolic);
    terms_.symbols();
    terms_.ranges(lir_.ranges);
    const std::vector<RootSlot> slots = root_slots(g, plan);
    regions(slots, plan);
    packing();
    arena(plan);
    if (!plan.symbolic) {
      peak(g, plan);
      savings(plan);
    }
    at_sizes(plan);
    out_.key("graphs").begin_array();
    for (size_t i = 0; i < module_.graph_count(); ++i) {
      const Graph& each = module_.graph(GraphId(i));
      graph(each, lir_.plans[i], i == 0 ? slots : root_slots(each, lir_.plans[i]));
    }
    out_.end_array();
    out_.end_object().finish();
  }

 private:
  void regions(const std::vector<RootSlot>& slots, const GraphPlan& plan) {
    std::array<std::vector<Dim>, kRegionCount> sizes;
    for (const RootSlot& s : slots) sizes[static_cast<size_t>(s.region)].push_back(s.size);
    std::vector<Dim> packed;
    for (const GraphPlan& each : lir_.plans) packed.push_back(each.packed_size);
    DimTable& dims = lir_.module->dims;
    out_.key("regions").begin_array();
    for (Region r : kRegions) {
      const std::vector<Dim>& own = sizes[static_cast<size_t>(r)];
      out_.begin_object(JsonLayout::Line).key("region").string(rlxc::name(r));
      out_.key("bytes");
      terms_.size(r == Region::Activations ? plan.arena_size : dims.sum(r == Region::Packed ? packed : own));
      out_.key("slots").unsigned_integer(own.size());
      out_.end_object();
    }
    out_.end_array();
  }

  // Prepacked buffers, and nodes that read weights unpacked because of a limit.
  void packing() {
    DimTable& dims = lir_.module->dims;
    Dim bytes(0), unpacked(0);
    uint64_t nodes = 0, unpacked_nodes = 0;
    for (const GraphPlan& plan : lir_.plans) {
      for (size_t i = 0; i < plan.prepacked.size(); ++i) {
        if (!plan.prepacked[i].shared) bytes = dims.add(bytes, plan.prepacked[i].bytes);
        nodes += i == 0 || plan.prepacked[i].node != plan.prepacked[i - 1].node;
      }
      unpacked = dims.add(unpacked, plan.unpacked_bytes);
      unpacked_nodes += plan.unpacked_nodes;
    }
    out_.key("packing").begin_object(JsonLayout::Line).key("known").boolean(lir_.packs_known);
    if (lir_.packs_known) {
      out_.key("nodes").unsigned_integer(nodes).key("bytes");
      terms_.size(bytes);
      out_.key("unpacked_nodes").unsigned_integer(unpacked_nodes).key("unpacked_bytes");
      terms_.size(unpacked);
    }
    out_.end_object();
  }

  void arena(const GraphPlan& plan) {
    out_.key("arena").begin_object(JsonLayout::Line).key("bytes");
    terms_.size(plan.arena_size);
    if (!plan.symbolic) {
      const uint64_t height = static_cast<uint64_t>(plan.arena_size.size());
      out_.key("lower_bound").unsigned_integer(plan.lower_bound);
      out_.key("gap").unsigned_integer(height - std::min(height, plan.lower_bound));
    }
    out_.key("given_order");
    terms_.size(plan.given_arena);
    out_.key("reordered").boolean(plan.reordered);
    if (plan.computed_again) out_.key("computed_again").unsigned_integer(plan.computed_again);
    out_.key("method").string(plan.method);
    out_.end_object();
    if (plan.patched.empty()) return;
    out_.key("patches").begin_array();
    for (const PatchedSegment& s : plan.patched) {
      out_.begin_object(JsonLayout::Line).key("first").string(s.first).key("last").string(s.last);
      out_.key("nodes").unsigned_integer(s.nodes).key("parts").unsigned_integer(s.parts);
      out_.key("flops").unsigned_integer(s.flops).key("flops_again").unsigned_integer(s.flops_again);
      out_.key("bytes_copied").unsigned_integer(s.bytes_copied).end_object();
    }
    out_.end_array();
  }

  // The values of expressions at sizes of the symbols.
  void at_sizes(const GraphPlan& plan) {
    const std::vector<DimBindings> corners = corner_sizes(lir_);
    if (corners.empty()) return;
    out_.key("at_sizes").begin_array();
    for (const DimBindings& sizes : corners) {
      const LivePeak peak = live_peak(lir_, sizes);
      out_.begin_object(JsonLayout::Line).key("sizes").begin_object(JsonLayout::Line);
      for (const auto& [name, size] : sizes) out_.key(name).integer(size);
      out_.end_object();
      if (const auto bytes = module_.dims.evaluate(plan.arena_size, sizes)) out_.key("arena").integer(*bytes);
      out_.key("peak").integer(peak.bytes).key("peak_step").unsigned_integer(peak.step).end_object();
    }
    out_.end_array();
  }

  // The tensors live at the peak step, largest first.
  void peak(const Graph& g, const GraphPlan& plan) {
    std::vector<ValueId> values = plan.peak_values;
    const auto bytes = [&](ValueId v) {
      return range_of(lir_.module->dims, plan.slot[v.raw].size, lir_.ranges).high.value_or(Dim(0)).size();
    };
    std::sort(values.begin(), values.end(),
              [&](ValueId a, ValueId b) { return bytes(a) == bytes(b) ? a.raw < b.raw : bytes(a) > bytes(b); });
    out_.key("peak").begin_object();
    out_.key("step").unsigned_integer(plan.peak_step);
    if (plan.peak_step < plan.schedule.size()) {
      const NodeId n = plan.schedule[plan.peak_step];
      out_.key("node").string(g.label(n));
      out_.key("op").string(kind_name(g.op(n)));
    }
    out_.key("bytes").unsigned_integer(plan.lower_bound);
    out_.key("tensors").begin_array();
    for (ValueId v : values) {
      out_.begin_object(JsonLayout::Line).key("value").unsigned_integer(v.raw);
      out_.key("name").string(value_label(g, v));
      out_.key("type");
      terms_.type(g.type_id(v));
      out_.key("bytes").integer(bytes(v));
      out_.end_object();
    }
    out_.end_array();
    out_.end_object();
  }

  void savings(const GraphPlan& plan) {
    out_.key("savings").begin_object(JsonLayout::Line).key("without_reuse").unsigned_integer(plan.without_reuse);
    out_.key("by_views").unsigned_integer(plan.saved_by_views);
    out_.key("in_place").unsigned_integer(plan.saved_in_place);
    out_.key("by_concat_alias").unsigned_integer(plan.saved_by_concat_alias);
    out_.key("by_reuse").unsigned_integer(plan.saved_by_reuse);
    out_.key("by_order").integer(plan.given_arena.size() - plan.arena_size.size());
    out_.end_object();
  }

  void graph(const Graph& g, const GraphPlan& plan, const std::vector<RootSlot>& slots) {
    out_.begin_object();
    out_.key("id").unsigned_integer(g.id().raw);
    out_.key("name").string(g.name().bytes());
    out_.key("steps").unsigned_integer(plan.schedule.size());
    out_.key("arena_bytes");
    terms_.size(plan.arena_size);
    out_.key("packed_bytes");
    terms_.size(plan.packed_size);
    out_.key("slots").begin_array();
    for (const RootSlot& s : slots) slot(g, plan, s);
    out_.end_array();
    if (!plan.prepacked.empty()) prepacked(g, plan);
    out_.end_object();
  }

  void prepacked(const Graph& g, const GraphPlan& plan) {
    out_.key("prepacked").begin_array();
    for (const PrepackedWeight& p : plan.prepacked) {
      out_.begin_object(JsonLayout::Line).key("node").unsigned_integer(p.node.raw);
      out_.key("name").string(g.label(p.node));
      out_.key("operands").begin_array(JsonLayout::Line);
      for (uint32_t i : p.operands) out_.unsigned_integer(i);
      out_.end_array();
      out_.key("offset");
      terms_.size(p.offset);
      out_.key("bytes");
      terms_.size(p.bytes);
      if (p.shared) out_.key("shared").boolean(true);
      out_.end_object();
    }
    out_.end_array();
  }

  void slot(const Graph& g, const GraphPlan& plan, const RootSlot& s) {
    out_.begin_object(JsonLayout::Line).key("value").unsigned_integer(s.root.raw);
    if (const Symbol name = g.value_name(s.root); name.valid()) {
      out_.key("name");
      terms_.name(name);
    } else if (const Symbol node = g.node_name(g.def(s.root)); node.valid()) {
      out_.key("name");
      terms_.name(node);
    }
    out_.key("type");
    terms_.type(g.type_id(s.root));
    out_.key("region").string(rlxc::name(s.region));
    if (is_of_caller(s.region)) out_.key("index").unsigned_integer(plan.slot[s.root.raw].index);
    out_.key("offset");
    terms_.size(s.offset);
    out_.key("bytes");
    terms_.size(s.size);
    out_.key("life").begin_array(JsonLayout::Line).unsigned_integer(s.first_step).unsigned_integer(s.last_step).end_array();
    if (s.values > 1) out_.key("values").unsigned_integer(s.values);
    out_.end_object();
  }

  const LirModule& lir_;
  const Module& module_;
  JsonWriter& out_;
  ModuleTerms terms_;
};

}  // namespace

void write_plan(const LirModule& lir, JsonWriter& out, const ReportContext& context) {
  write_document(*lir.module, out, context, [&](JsonWriter& w) { return PlanWriter(lir, w); });
}

}  // namespace rlxc::report
