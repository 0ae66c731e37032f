// The program of a device, by all that names and strategies say.
#pragma once
#include "passes/pass.h"
#include "shard/strategies.h"

namespace rlxc {

// Rewrites the graph to the program that every device of the mesh runs: splits what the requests and strategies name and what
// follows from it, then cuts it into the stages of a pipeline, if there is one, and its batch into parts that follow each other
// through the stages. False after errors: those of the strategies. O(nodes).
bool divide(Graph&, const Mesh&, const std::vector<shard::Request>&, const std::vector<shard::AxisStrategy>&, const PassContext&,
            Diagnostics&, bool* changed);

}  // namespace rlxc
