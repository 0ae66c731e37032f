// Shardings that a model file carries: the device configurations of ONNX name devices by number, a mesh names them by axes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/devices.h"
#include "shard/propagate.h"

namespace rlxc::shard {

// The shardings of the configuration with the name of the mesh, or of the first with as many devices, as hints. The mesh axes of
// a dim are those that give every shard to the devices that the file names. Warns (Code::ShardingConflict) of tensors for which
// there are none. O(tensors * devices); for each tensor 20,000 choices of mesh axes are tried at most.
std::vector<Request> annotated_requests(const DeviceConfigurations&, const Mesh&, Diagnostics&);

// Stages of a pipeline, by name of the node.
using NodeStages = std::map<std::string, int64_t, std::less<>>;
// Those of the same configuration. Empty if its nodes have none.
NodeStages annotated_stages(const DeviceConfigurations&, const Mesh&);

// The decided values that have a name: those that are split, or were asked to stay whole.
struct NamedSharding {
  Sharding sharding;
  std::vector<int64_t> sizes;  // of the dims; 0: not known
};
using NamedShardings = std::map<std::string, NamedSharding, std::less<>>;
NamedShardings named_shardings(const Shardings&);

// The inverse of annotated_requests: gives the module a configuration with the name of the mesh, which says at each node how its
// values lie, and its stage. It takes the place of configurations with as many devices. Nodes without a name get one. Values of
// other sizes than those that were decided are left out. O(operands * devices).
void annotate(Module&, const Mesh&, const NamedShardings&, const NodeStages& = {});

}  // namespace rlxc::shard
