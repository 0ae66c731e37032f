// Shardings that a model file carries: the device configurations of ONNX name devices by number, a mesh names them by axes.
#pragma once
#include <vector>

#include "ir/devices.h"
#include "shard/sharding.h"

namespace rlxc::shard {

// The shardings of the first configuration with as many devices as the mesh, as hints. The mesh axes of a dim are those that give
// every shard to the devices that the file names. Warns (Code::ShardingConflict) of tensors for which there are none. O(tensors *
// devices); for each tensor 20,000 choices of mesh axes are tried at most.
std::vector<Request> annotated_requests(const DeviceConfigurations&, const Mesh&, Diagnostics&);

}  // namespace rlxc::shard
