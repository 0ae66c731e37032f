// Turns the main graph into the program that every device of the mesh runs. Names and --parallel say how some values are divided,
// propagation decides the others, and collectives exchange what a device needs of others. Errors are those of the options:
// unknown mesh axes and names, dims that do not divide. O(nodes).
#include <algorithm>

#include "passes/passes.h"
#include "passes/shard/choose_strategies.h"
#include "passes/shard/divide.h"
#include "shard/annotations.h"

namespace rlxc {
namespace {

// The mesh axis that a strategy divides over: the one of its name, or the only one.
std::optional<shard::AxisStrategy> axis_for(const Mesh& mesh, std::string_view strategy, Diagnostics& d) {
  const auto known = std::ranges::find(shard::kStrategies, strategy);
  if (known == std::end(shard::kStrategies)) {
    d.error(Code::BadFlag, "--parallel auto goes with no other strategy");
    return std::nullopt;
  }
  const std::string_view name = strategy == "tensor" ? "model" : strategy == "pipeline" ? "pipe" : strategy;
  if (const auto axis = mesh.find(name)) return shard::AxisStrategy{*known, *axis};
  if (mesh.axes.size() == 1) return shard::AxisStrategy{*known, 0};
  d.error(Code::BadFlag, "--parallel " + std::string(strategy) + " needs a mesh axis \"" + std::string(name) + "\"", {},
          "for example --mesh " + std::string(name) + "=2,model=4");
  return std::nullopt;
}

// The mesh axis of stages that a model has: pipe, or the only one. None if it has too few devices.
std::optional<size_t> axis_of_stages(const Mesh& mesh, const shard::NodeStages& stages) {
  const auto axis = mesh.axes.size() == 1 ? std::optional<size_t>(0) : mesh.find("pipe");
  const bool fits =
      axis && std::ranges::all_of(stages, [&](const auto& s) { return s.second >= 0 && s.second < mesh.axes[*axis].size; });
  return fits ? axis : std::nullopt;
}

// Returns the strategies that --parallel names. `auto` chooses the fastest ones (choose_strategies).
std::optional<std::vector<shard::AxisStrategy>> strategies(Module& m, const Mesh& mesh,
                                                           const std::vector<shard::Request>& requests, PassContext& context) {
  const std::vector<std::string>& parallel = context.options.parallel;
  if (parallel.size() == 1 && parallel[0] == "auto") return choose_strategies(m, mesh, requests, context);
  std::vector<shard::AxisStrategy> out;
  for (const std::string& strategy : parallel) {
    const auto axis = axis_for(mesh, strategy, context.diagnostics);
    if (!axis) return std::nullopt;
    out.push_back(*axis);
  }
  return out;
}

}  // namespace

std::optional<Division> division_of(Module& m, PassContext& context) {
  const PassOptions& o = context.options;
  Diagnostics& d = context.diagnostics;
  if (o.mesh.empty()) {
    if (!o.shards.empty() || !o.parallel.empty())
      d.error(Code::BadFlag, "--shard and --parallel need --mesh", {}, "for example --mesh model=4");
    return std::nullopt;
  }
  std::string message;
  auto mesh = Mesh::parse(o.mesh, &message);
  if (!mesh) {
    d.error(Code::BadFlag, "--mesh: " + message);
    return std::nullopt;
  }
  if (mesh->devices() == 1 || mesh_of(m)) return std::nullopt;
  // The last flag that names a value decides.
  std::vector<shard::Request> requests;
  for (size_t i = o.shards.size(); i-- > 0;) {
    auto request = shard::parse_request(o.shards[i], *mesh, d);
    if (!request) return std::nullopt;
    requests.push_back(std::move(*request));
  }
  std::ranges::move(shard::annotated_requests(m.devices, *mesh, d), std::back_inserter(requests));
  auto chosen = strategies(m, *mesh, requests, context);
  if (!chosen) return std::nullopt;
  shard::NodeStages stages = shard::annotated_stages(m.devices, *mesh);
  const bool cuts = std::ranges::count(*chosen, std::string_view("pipeline"), &shard::AxisStrategy::strategy) > 0;
  if (!stages.empty() && !cuts) {
    if (const auto axis = axis_of_stages(*mesh, stages)) chosen->push_back({"pipeline", *axis});
    else
      d.warning(Code::ShardingConflict,
                "the mesh " + mesh->text() + " has no axis pipe for the stages of the model; they are ignored",
                "the device configuration of the model");
  }
  return Division{std::move(*mesh), std::move(requests), std::move(*chosen), cuts ? shard::NodeStages() : std::move(stages)};
}

PassResult partition(Module& m, PassContext& context) {
  PassResult result;
  if (const auto division = division_of(m, context)) divide(m.main(), *division, context, context.diagnostics, &result.changed);
  return result;
}

}  // namespace rlxc
