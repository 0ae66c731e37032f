#include "commands/profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "backend/backend.h"
#include "backend/registry.h"
#include "commands/commands.h"
#include "commands/missing_weights.h"
#include "driver/compile.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "driver/training_stage.h"
#include "eval/random.h"
#include "report/context.h"
#include "report/module_terms.h"
#include "report/table.h"
#include "runtime/data_set.h"
#include "runtime/package_call.h"
#include "runtime/run_package.h"
#include "support/json_writer.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

}  // namespace

std::optional<std::vector<eval::HostValue>> host_inputs(LoadedModel& model, const CompileOptions& o, const std::string& data,
                                                        Diagnostics& d) {
  Module& m = *model.module;
  DataSet set;
  if (!data.empty()) {
    auto sets = read_data_sets(m, data, d);
    if (!sets || sets->empty()) return std::nullopt;
    set = std::move(sets->front());
  }
  const auto forms = lower_interface(m, "cpu", o, d);
  if (!forms) return std::nullopt;
  if (data.empty()) {
    if (!eval::random_inputs_fit(m, evaluation_limits(o), d)) return std::nullopt;
    return random_inputs(m, model.training, {}, 1);
  }
  if (!strings_to_bytes(set, forms->text_inputs, d)) return std::nullopt;
  bind_input_sizes(m, set.inputs);
  return std::move(set.inputs);
}

namespace {

std::vector<NodeTime> node_times(const codegen::Package& p, std::span<const double> laps) {
  const Module& m = *p.lir->module;
  std::vector<NodeTime> out;
  std::map<std::pair<uint32_t, uint32_t>, size_t> at;
  size_t i = 0;
  for (const codegen::GraphProgram& program : p.graphs)
    for (const codegen::Command& s : program.run) {
      const double ms = laps[i++];
      if (s.is_control()) continue;
      const auto [found, fresh] = at.try_emplace({s.graph.raw, s.node.raw}, out.size());
      if (fresh) {
        NodeTime& t = out.emplace_back();
        t.op = "copy of an output";
        t.node = ForeignText(t.op);
        if (const Graph& g = m.graph(s.graph); s.node.valid()) {
          t.node = g.label(s.node);
          t.op = kind_name(g.op(s.node));
          t.result = text(g.type(g.result(s.node)), m.dims);
          JsonWriter w(t.result_json);
          report::ModuleTerms(m, w).type(g.type_id(g.result(s.node)));
          t.key = codegen::tuning_key(g, s.node);
          t.cost = node_cost(g, s.node);
        }
      }
      out[found->second].ms += ms;
      ++out[found->second].launches;
    }
  return out;
}

double bytes_of(const Cost& c) { return static_cast<double>(c.bytes_read + c.bytes_written); }
// Returns 1e9 operations or bytes per second; "-" if unknown.
std::string rate(double count, double ms) { return count > 0 && ms > 0 ? report::fixed(count / ms / 1e6, 1) : "-"; }

std::vector<size_t> longest_first(const std::vector<NodeTime>& nodes) {
  std::vector<size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return nodes[a].ms > nodes[b].ms; });
  return order;
}

}  // namespace

std::optional<Profile> profile_model(const CompileOptions& o, const ProfileRequest& request, Diagnostics& d) {
  auto model = load_model(o, d);
  if (!model) return std::nullopt;
  fill_missing_weights(*model->module, {}, 1, d);
  const auto inputs = host_inputs(*model, o, request.data, d);
  if (!inputs) return std::nullopt;
  const auto compiled = compile(std::move(*model), "cpu", o, {}, d);
  if (!compiled) return std::nullopt;
  const auto package = cpu_backend().program(compiled->lir, d, compiled->lowerings.get());
  if (!package) return std::nullopt;
  ::setenv("RLXC_THREADS", std::to_string(request.threads).c_str(), 1);  // read when the package is loaded
  const auto loaded = LoadedPackage::build(
      *package,
      {.flags = {"-O3", "-march=native"}, .threads = request.threads > 1, .laps = true, .max_operations = o.max_operations}, d);
  if (!loaded || !loaded->run(*inputs, d)) return std::nullopt;
  Profile out{compiled->lir.module->name, request.threads, request.repeat, HUGE_VAL, {}};
  std::vector<double> before, least(loaded->lap_ms().size(), HUGE_VAL);
  for (int64_t i = 0; i < request.repeat; ++i) {
    before.assign(loaded->lap_ms().begin(), loaded->lap_ms().end());
    const auto start = Clock::now();
    if (!loaded->run(*inputs, d)) return std::nullopt;
    out.run_ms = std::min(out.run_ms, ms_since(start));
    for (size_t k = 0; k < least.size(); ++k) least[k] = std::min(least[k], loaded->lap_ms()[k] - before[k]);
  }
  out.nodes = node_times(*package, least);
  return out;
}

std::string profile_text(const Profile& p, const ProfileRequest& request) {
  double sum = 0;
  std::map<std::string, NodeTime> by_op;
  for (const NodeTime& n : p.nodes) {
    NodeTime& all = by_op[n.op];
    all.op = n.op;
    all.ms += n.ms;
    all.launches += n.launches;
    all.cost += n.cost;
    sum += n.ms;
  }
  std::vector<NodeTime> ops;
  for (auto& [name, n] : by_op) ops.push_back(std::move(n));
  const auto share = [&](double ms) { return report::fixed(sum > 0 ? 100 * ms / sum : 0, 1) + "%"; };

  std::string out = p.model.line() + ": " + report::fixed(p.run_ms, 3) + " ms a run, " + report::fixed(sum, 3) + " ms of it in " +
                    std::to_string(p.nodes.size()) + " nodes; least of " + std::to_string(p.repeat) + " runs on " +
                    std::to_string(p.threads) + (p.threads == 1 ? " thread\n\n" : " threads\n\n");
  report::Table table({"operation", "launches", "ms", "share", "GFLOP/s", "GB/s"});
  for (size_t i : longest_first(ops)) {
    const NodeTime& n = ops[i];
    table.add({n.op, std::to_string(n.launches), report::fixed(n.ms, 3), share(n.ms), rate(n.cost.flops, n.ms),
               rate(bytes_of(n.cost), n.ms)});
  }
  table.print(&out);
  out += "\n";
  report::Table nodes({"node", "operation", "result", "ms", "share", "GFLOP/s", "GB/s"});
  const auto order = longest_first(p.nodes);
  for (size_t i = 0; i < std::min(order.size(), request.top); ++i) {
    const NodeTime& n = p.nodes[order[i]];
    nodes.add({n.node.line(), n.op, n.result, report::fixed(n.ms, 3), share(n.ms), rate(n.cost.flops, n.ms),
               rate(bytes_of(n.cost), n.ms)});
  }
  nodes.print(&out);
  if (order.size() > request.top) out += "and " + std::to_string(order.size() - request.top) + " more (--top N)\n";
  return out;
}

double rounded_ms(double ms) { return std::round(ms * 1e6) / 1e6; }

std::string profile_json(const Profile& p) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  report::write_plain_header(w, "profile", version());
  w.key("model").string(p.model).key("threads").integer(p.threads).key("runs").integer(p.repeat);
  w.key("run_ms").number(rounded_ms(p.run_ms)).key("nodes").begin_array();
  for (const NodeTime& n : p.nodes) {
    w.begin_object(JsonLayout::Line).key("node").string(n.node).key("op").string(n.op);
    if (!n.result_json.empty()) w.key("result").raw(n.result_json);
    w.key("launches")
        .integer(static_cast<int64_t>(n.launches))
        .key("ms")
        .number(rounded_ms(n.ms))
        .key("flops")
        .number(n.cost.flops)
        .key("bytes")
        .integer(n.cost.bytes_read + n.cost.bytes_written)
        .end_object();
  }
  w.end_array().end_object().finish();
  return out;
}

std::string profile_trace(const Profile& p) {
  std::string out;
  JsonWriter w(out);
  w.begin_object().key("displayTimeUnit").string("ms").key("traceEvents").begin_array();
  const auto begin = [&](std::string_view phase, int64_t thread) -> JsonWriter& {
    return w.begin_object(JsonLayout::Line).key("ph").string(phase).key("pid").integer(1).key("tid").integer(thread);
  };
  begin("M", 0)
      .key("name")
      .string("process_name")
      .key("args")
      .begin_object()
      .key("name")
      .string(p.model)
      .end_object()
      .end_object();
  double at = 0;
  for (const NodeTime& n : p.nodes) {
    begin("X", 1).key("name").string(n.node).key("cat").string(n.op).key("ts").number(rounded_ms(at) * 1e3);
    w.key("dur").number(rounded_ms(n.ms) * 1e3).key("args").begin_object().key("op").string(n.op);
    w.key("result").string(n.result).key("launches").integer(static_cast<int64_t>(n.launches)).key("flops").number(n.cost.flops);
    w.key("bytes").integer(n.cost.bytes_read + n.cost.bytes_written).end_object().end_object();
    at += n.ms;
  }
  w.end_array().end_object().finish();
  return out;
}

}  // namespace rlxc
