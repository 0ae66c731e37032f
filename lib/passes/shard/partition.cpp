// Turns the main graph into the program that every device of the mesh runs. Names and --parallel say how some values are divided,
// propagation decides the others, and collectives exchange what a device needs of others. Errors are those of the options:
// unknown mesh axes and names, dims that do not divide. O(nodes).
#include "shard/partition.h"

#include "passes/passes.h"
#include "shard/strategies.h"

namespace rlxc {
namespace {

// The mesh axis of a strategy: the one of this name, or the only one.
std::optional<size_t> axis_for(const Mesh& mesh, std::string_view strategy, std::string_view name, Diagnostics& d) {
  if (const auto axis = mesh.find(name)) return axis;
  if (mesh.axes.size() == 1) return 0;
  d.error(Code::BadFlag, "--parallel " + std::string(strategy) + " needs a mesh axis \"" + std::string(name) + "\"", {},
          "for example --mesh data=2,model=4");
  return std::nullopt;
}

bool apply_strategy(const Graph& g, const std::string& strategy, shard::Shardings& s, Diagnostics& d) {
  const bool tensor = strategy == "tensor";
  const auto axis = axis_for(s.mesh(), strategy, tensor ? "model" : "data", d);
  return axis && (tensor ? shard::split_tensors(g, s, *axis, d) : shard::split_batch(g, s, *axis, d));
}

}  // namespace

PassResult partition(Module& m, PassContext& context) {
  const PassOptions& o = context.options;
  Diagnostics& d = context.diagnostics;
  if (o.mesh.empty()) {
    if (!o.shards.empty() || !o.parallel.empty())
      d.error(Code::BadFlag, "--shard and --parallel need --mesh", {}, "for example --mesh model=4");
    return {};
  }
  std::string message;
  auto mesh = Mesh::parse(o.mesh, &message);
  if (!mesh) {
    d.error(Code::BadFlag, "--mesh: " + message);
    return {};
  }
  if (mesh->devices() == 1 || mesh_of(m)) return {};
  shard::Shardings s(m.main(), std::move(*mesh));
  // The last flag that names a value decides.
  for (size_t i = o.shards.size(); i-- > 0;) {
    const auto request = shard::parse_request(o.shards[i], s.mesh(), d);
    if (!request || !s.apply(*request, d)) return {};
  }
  for (const std::string& strategy : o.parallel)
    if (!apply_strategy(m.main(), strategy, s, d)) return {};
  s.propagate(d);
  PassResult result;
  result.changed = shard::partition(m.main(), s);
  return result;
}

}  // namespace rlxc
