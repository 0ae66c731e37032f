// The program of a device, by all that names and strategies say.
#pragma once
#include "passes/pass.h"
#include "shard/annotations.h"
#include "shard/strategies.h"

namespace rlxc {

// How a graph is to be divided.
struct Division {
  Mesh mesh;
  std::vector<shard::Request> requests;  // the first that names a value decides; hints come last
  std::vector<shard::AxisStrategy> strategies;
  shard::NodeStages stages = {};  // of a pipeline, where they are given
};

// Reads --mesh, --shard and --parallel; `auto` chooses strategies for the main graph. Nullopt after errors, or if nothing is to
// be divided.
std::optional<Division> division_of(Module&, PassContext&);

// Applies the requests and the strategies, pipelines excepted, and propagates them. Nullopt after errors.
std::optional<shard::Shardings> shardings_of(const Graph&, const Division&, Diagnostics&);

// Rewrites the graph to the program that every device of the mesh runs: divides the values, then cuts it into the stages of a
// pipeline, if there is one, and its batch into parts that follow each other through the stages. False after errors: those of the
// strategies. O(nodes).
bool divide(Graph&, const Division&, const PassContext&, Diagnostics&, bool* changed);

// The stages of the nodes that one stage alone computes, and of those they were made of; empty without a pipeline. Divides a
// copy. Nullopt after errors. O(nodes).
std::optional<shard::NodeStages> stages_of_nodes(const Graph&, const Division&, const PassContext&, Diagnostics&);

}  // namespace rlxc
