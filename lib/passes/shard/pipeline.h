// --parallel pipeline: stages of about equal predicted time, one for each device along a mesh axis.
#pragma once
#include "analysis/exchange.h"
#include "passes/pass.h"
#include "shard/annotations.h"

namespace rlxc {

// Cuts the main graph, the program of a device, into stages in execution order, so that the slowest takes the least predicted
// time. Values that later stages read are sent to them, or computed there again where that is faster; outputs are sent to all
// stages. Which nodes a device computes follows from these exchanges (ir/stages.h).
// Nodes of which `given` has the stage, or that of a node they were made of, stay in it; the warning Code::ShardingConflict says
// if no cuts allow that. Error (Code::BadSharding): fewer steps than stages, sizes that depend on data, a mesh axis that is in
// use or has more than Stages::kMost devices. O(nodes * stages).
bool cut_pipeline(Graph&, const Mesh&, size_t axis, const shard::NodeStages& given, const PassContext&, Diagnostics&);

// Cuts the batch of the inputs (dim 0 of the first) into parts, which pass through the graph one after another: a stage then
// computes a part while others compute other parts. The number of parts is that of the least predicted time, at most 4 for each
// stage. False, and nothing done, if nodes combine rows of the batch, or none is faster. O(nodes * parts).
bool cut_batch(Graph&, int64_t stages, const PassContext&);

// Predicted time of a node in a run, without exchanges; and of a run of the graph, the program of a device.
double step_ns(const Graph&, NodeId, const Machine&);
RunClock predicted_run(const Graph&, const PassContext&);

}  // namespace rlxc
