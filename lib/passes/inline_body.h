// Moves or copies the nodes of a body into the graph of its owner.
#pragma once
#include <span>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// Copies the nodes of `body` into `g` before `before`, reading `inputs` for the body's inputs, and returns the body's outputs in
// `g`. Keeps names and provenance. Inner bodies are shared with the copies, so only one copy of a body with inner bodies may
// remain. O(nodes of the body).
std::vector<ValueId> copy_body(Graph& g, NodeId before, const Graph& body, std::span<const ValueId> inputs,
                               std::vector<NodeId>* made = nullptr);

// Like copy_body, but moves inner bodies and leaves `body` empty. `made` receives the new nodes, if given. O(nodes of the body).
std::vector<ValueId> inline_body(Graph& g, NodeId before, Graph& body, std::span<const ValueId> inputs,
                                 std::vector<NodeId>* made = nullptr);

}  // namespace rlxc
