#include "report/sharding.h"

#include <algorithm>
#include <map>

#include "analysis/phases.h"
#include "ir/mesh.h"
#include "report/table.h"
#include "support/number.h"

namespace rlxc::report {
namespace {

struct Exchange {
  std::string node, op;
  std::vector<std::string> along;
  int64_t devices = 1;
  uint64_t bytes = 0;  // that each device sends
  double ns = 0;
};

struct HeldWeight {
  ForeignText name;
  uint64_t bytes = 0, whole_bytes = 0;
};

struct Facts {
  Mesh mesh;
  std::vector<Exchange> exchanges;  // of a run, in execution order
  std::vector<HeldWeight> weights;
  std::vector<uint64_t> weight_bytes;  // by stage of a pipeline
  uint64_t whole_weight_bytes = 0;
  uint64_t attentions = 0;
  RunClock clock;

  uint64_t device_weight_bytes() const { return std::ranges::max(weight_bytes); }
  uint64_t sent() const { return std::ranges::max(clock.stages(), {}, &RunClock::Stage::sent).sent; }
  bool pipeline() const { return weight_bytes.size() > 1; }
  // The longest part of a run. Waits are those of a pipeline for its slowest stage.
  std::string_view limit() const {
    const RunClock::Stage& s = clock.busiest();
    if (clock.end_ns() > 2 * (s.compute_ns + s.exchange_ns)) return "stages";
    return s.exchange_ns > s.compute_ns ? "exchange" : "compute";
  }
};

Exchange exchange_of(const Graph& g, NodeId n, const ExchangeCost& cost) {
  return {g.label(n).bytes(), std::string(name(g.op(n))), g.attrs<CollectiveAttrs>(n).along, cost.devices, cost.bytes, cost.ns};
}

Facts facts_of(const LirModule& lir, const Machine& machine, const Link& link) {
  const Graph& g = lir.module->main();
  const GraphPlan& plan = lir.plans[0];
  const auto stages = stages_of(g);
  Facts f{mesh_of(*lir.module).value_or(Mesh{}), {}, {}, {}, 0, 0, RunClock(g)};
  f.weight_bytes.resize(f.clock.stages().size());
  for (NodeId n : plan.schedule) {
    const OpKind op = g.op(n);
    const bool runs = plan.phase[n.raw] != Phase::Prologue;
    f.attentions += op == OpKind::Attention;
    if (is_weight(op) || is_weight_slice(g, n)) {
      const Slot& s = plan.slot[g.result(n).raw];
      if (s.region != Region::Weights || !s.size.is_static()) continue;
      const ValueId whole = is_weight(op) ? g.result(n) : g.operand(n, 0);
      const Symbol name = g.value_name(whole);
      const HeldWeight w{name.valid() ? lir.module->text(name) : g.label(n), static_cast<uint64_t>(s.size.size()),
                         byte_size(g.type(whole)).value_or(0)};
      for (size_t s = 0; s < f.weight_bytes.size(); ++s)
        if (!stages || stages->computes(static_cast<int64_t>(s), n)) f.weight_bytes[s] += w.bytes;
      f.whole_weight_bytes += w.whole_bytes;
      if (op == OpKind::DeviceSlice) f.weights.push_back(w);
    } else if (exchanges_data(op) && runs) {
      f.exchanges.push_back(exchange_of(g, n, f.clock.exchange(n, link)));
    } else if (runs && !has_trait(op, kLeaf | kBody | kTerminator) && !plan.layouts.is_view(g, n)) {
      f.clock.compute(n, launch_time_ns(node_cost(g, n), machine));
    }
  }
  return f;
}

}  // namespace

void write_sharding(const LirModule& lir, const Machine& machine, const Link& link, JsonWriter& w, const ReportContext& context) {
  const Facts f = facts_of(lir, machine, link);
  const Dim arena = lir.plans[0].arena_size;
  w.begin_object();
  write_header(w, "sharding", context);
  w.key("mesh").begin_array();
  for (const MeshAxis& a : f.mesh.axes)
    w.begin_object(JsonLayout::Line).key("axis").string(a.name).key("size").integer(a.size).end_object();
  w.end_array();
  w.key("devices").integer(f.mesh.devices());
  w.key("weights").begin_object();
  w.key("bytes").unsigned_integer(f.device_weight_bytes()).key("whole_bytes").unsigned_integer(f.whole_weight_bytes);
  w.key("slices").begin_array();
  for (const HeldWeight& h : f.weights)
    w.begin_object(JsonLayout::Line)
        .key("name")
        .string(h.name)
        .key("bytes")
        .unsigned_integer(h.bytes)
        .key("whole_bytes")
        .unsigned_integer(h.whole_bytes)
        .end_object();
  w.end_array().end_object();
  w.key("arena_bytes");
  if (arena.is_static()) w.integer(arena.size());
  else w.string(lir.module->dims.text(arena));
  w.key("attentions").unsigned_integer(f.attentions);
  w.key("exchanges").begin_object();
  w.key("count").unsigned_integer(f.exchanges.size()).key("bytes").unsigned_integer(f.sent());
  w.key("nodes").begin_array();
  for (const Exchange& e : f.exchanges) {
    w.begin_object(JsonLayout::Line).key("node").string(e.node).key("op").string(e.op);
    w.key("along").begin_array(JsonLayout::Line);
    for (const std::string& axis : e.along) w.string(axis);
    w.end_array().key("devices").integer(e.devices).key("bytes").unsigned_integer(e.bytes).key("ns").number(e.ns).end_object();
  }
  w.end_array().end_object();
  w.key("stages").begin_array();
  for (size_t i = 0; i < f.weight_bytes.size() && f.pipeline(); ++i) {
    const RunClock::Stage& stage = f.clock.stages()[i];
    w.begin_object(JsonLayout::Line)
        .key("weight_bytes")
        .unsigned_integer(f.weight_bytes[i])
        .key("bytes")
        .unsigned_integer(stage.sent);
    w.key("compute_ns").number(stage.compute_ns).key("exchange_ns").number(stage.exchange_ns).end_object();
  }
  w.end_array();
  const RunClock::Stage& busiest = f.clock.busiest();
  w.key("time").begin_object(JsonLayout::Line);
  w.key("link_gbps")
      .number(link.bandwidth)
      .key("exchange_ns")
      .number(busiest.exchange_ns)
      .key("compute_ns")
      .number(busiest.compute_ns);
  w.key("run_ns").number(f.clock.end_ns()).key("limit").string(f.limit());
  w.end_object();
  w.end_object().finish();
}

std::string sharding_text(const LirModule& lir, const Machine& machine, const Link& link) {
  const Facts f = facts_of(lir, machine, link);
  const Dim arena = lir.plans[0].arena_size;
  struct Sum {
    uint64_t count = 0, bytes = 0;
    double ns = 0;
  };
  std::map<std::string, Sum> by_op;
  for (const Exchange& e : f.exchanges) {
    std::string key = e.op + " over";
    for (const std::string& axis : e.along) key += " " + axis;
    Sum& s = by_op[key];
    ++s.count, s.bytes += e.bytes, s.ns += e.ns;
  }
  const auto ms = [](double ns) { return shortest(std::round(ns / 1e3) / 1e3) + " ms"; };
  std::string s = "Mesh " + f.mesh.text() + ": " + std::to_string(f.mesh.devices()) + " devices\n";
  s += "Weights of a device: " + human_bytes(f.device_weight_bytes()) + " of " + human_bytes(f.whole_weight_bytes) + "\n";
  s += "Activations of a device: " +
       (arena.is_static() ? human_bytes(static_cast<uint64_t>(arena.size())) : lir.module->dims.text(arena) + " bytes") + "\n";
  s += "Exchanges of a run: " + std::to_string(f.exchanges.size()) + ", " + human_bytes(f.sent()) + " sent by a device";
  if (f.attentions > 0)
    s += ", " + shortest(std::round(10 * static_cast<double>(f.exchanges.size()) / static_cast<double>(f.attentions)) / 10) +
         " for each of " + std::to_string(f.attentions) + " attentions";
  s += "\n";
  for (const auto& [op, sum] : by_op)
    s += "  " + op + ": " + std::to_string(sum.count) + ", " + human_bytes(sum.bytes) + ", " + ms(sum.ns) + "\n";
  for (size_t i = 0; i < f.weight_bytes.size() && f.pipeline(); ++i) {
    const RunClock::Stage& stage = f.clock.stages()[i];
    s += "Stage " + std::to_string(i) + ": " + human_bytes(f.weight_bytes[i]) + " of weights, " + human_bytes(stage.sent) +
         " sent, " + ms(stage.compute_ns) + " of computation, " + ms(stage.exchange_ns) + " of exchange\n";
  }
  const RunClock::Stage& busiest = f.clock.busiest();
  s += "Predicted time of a run: " + ms(f.clock.end_ns()) + ", of which " + (f.pipeline() ? "the busiest stage has " : "") +
       ms(busiest.compute_ns) + " of computation, " + ms(busiest.exchange_ns) + " of exchange at " + shortest(link.bandwidth) +
       " GB/s\n";
  return s;
}

}  // namespace rlxc::report
