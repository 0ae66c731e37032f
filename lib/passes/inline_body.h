// Moves or copies the nodes of a body into the graph of the node that owns it.
#pragma once
#include <span>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

// The nodes of `body` are remade in `g` before `before`, reading `inputs` for the body's inputs; names and provenance are kept.
// Inner bodies are shared with the copies: only one copy of a body that has some may stay. O(nodes of the body).
std::vector<ValueId> copy_body(Graph& g, NodeId before, const Graph& body, std::span<const ValueId> inputs,
                               std::vector<NodeId>* made = nullptr);

// The nodes of `body` are remade in `g` before `before`, reading `inputs` for the body's inputs; names and provenance are kept,
// inner bodies move along, and `body` is left empty. Returns what the body's outputs are in `g`. `made`, if given, receives the
// new nodes. O(nodes of the body).
std::vector<ValueId> inline_body(Graph& g, NodeId before, Graph& body, std::span<const ValueId> inputs,
                                 std::vector<NodeId>* made = nullptr);

}  // namespace rlxc
