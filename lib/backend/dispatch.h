// How the nodes of a module run on a target, for the dispatch report.
#pragma once
#include <vector>

#include "ir/lir.h"
#include "passes/pass.h"
#include "report/dispatch.h"

namespace rlxc {

// Returns the nodes that legalisation must rewrite, because the target lacks their kind. Call before legalisation.
std::vector<report::DispatchNode> foreign_nodes(const Module&, const TargetTraits&);
// Returns the nodes of `before` that no longer exist, as rewritten. Call after legalisation, before ids change.
std::vector<report::DispatchNode> rewritten_nodes(const Module&, std::vector<report::DispatchNode> before);
// Returns every non-leaf node of the compiled module. O(nodes).
std::vector<report::DispatchNode> dispatched_nodes(const LirModule&, const TargetTraits&);

}  // namespace rlxc
