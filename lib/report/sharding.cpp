#include "report/sharding.h"

#include <algorithm>

#include "report/sharding_facts.h"
#include "support/number.h"

namespace rlxc::report {

void write_sharding(const LirModule& lir, const Machine& machine, const Link& link, JsonWriter& w, const ReportContext& context) {
  const ShardingFacts f = sharding_facts(lir, machine, link);
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
  const ShardingFacts f = sharding_facts(lir, machine, link);
  std::string s = "Mesh " + f.mesh.text() + ": " + std::to_string(f.mesh.devices()) + " devices\n";
  s += "Weights of a device: " + human_bytes(f.device_weight_bytes()) + " of " + human_bytes(f.whole_weight_bytes) + "\n";
  s += "Activations of a device: " + activations_text(lir) + "\n";
  s += "Exchanges of a run: " + std::to_string(f.exchanges.size()) + ", " + human_bytes(f.sent()) + " sent by a device";
  if (f.attentions > 0)
    s += ", " + shortest(std::round(10 * static_cast<double>(f.exchanges.size()) / static_cast<double>(f.attentions)) / 10) +
         " for each of " + std::to_string(f.attentions) + " attentions";
  s += "\n";
  for (const auto& [op, sum] : f.sums())
    s += "  " + op + ": " + std::to_string(sum.count) + ", " + human_bytes(sum.bytes) + ", " + milliseconds(sum.ns) + "\n";
  for (size_t i = 0; i < f.weight_bytes.size() && f.pipeline(); ++i) {
    const RunClock::Stage& stage = f.clock.stages()[i];
    s += "Stage " + std::to_string(i) + ": " + human_bytes(f.weight_bytes[i]) + " of weights, " + human_bytes(stage.sent) +
         " sent, " + milliseconds(stage.compute_ns) + " of computation, " + milliseconds(stage.exchange_ns) + " of exchange\n";
  }
  const RunClock::Stage& busiest = f.clock.busiest();
  s += "Predicted time of a run: " + milliseconds(f.clock.end_ns()) + ", of which " +
       (f.pipeline() ? "the busiest stage has " : "") + milliseconds(busiest.compute_ns) + " of computation, " +
       milliseconds(busiest.exchange_ns) + " of exchange at " + shortest(link.bandwidth) + " GB/s\n";
  return s;
}

}  // namespace rlxc::report
