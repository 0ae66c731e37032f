// Collectives, evaluated for all devices of a mesh at once.
#pragma once
#include <span>
#include <vector>

#include "eval/context.h"

namespace rlxc::eval {

// `operand`: by rank, or one value if all devices have the same; empty if there is none. Results likewise. The type rule of the
// node holds for these operands. False with an error of the run.
bool eval_collective(Run&, const Graph&, NodeId, std::span<const HostValue> operand, std::vector<HostValue>* results);

}  // namespace rlxc::eval
