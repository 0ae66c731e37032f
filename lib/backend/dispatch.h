// How the nodes of a module run on a target, for the dispatch report.
#pragma once
#include <vector>

#include "ir/lir.h"
#include "passes/pass.h"
#include "report/dispatch.h"

namespace rlxc {

// Nodes of kinds that the target does not have: what legalisation must rewrite. Call before it.
std::vector<report::DispatchNode> foreign_nodes(const Module&, const TargetTraits&);
// Those of `before` that are gone, as rewritten. Call after it, before ids change.
std::vector<report::DispatchNode> rewritten_nodes(const Module&, std::vector<report::DispatchNode> before);
// Every node of the compiled module that is not a leaf. O(nodes).
std::vector<report::DispatchNode> dispatched_nodes(const LirModule&, const TargetTraits&);

}  // namespace rlxc
