// Counts the nodes that a function call adds, without expanding it: a chain of functions that call the next one twice grows
// exponentially.
#include "import/onnx/importer.h"
#include "import/onnx/op.h"
#include "support/checked.h"

namespace rlxc::onnx_import {

// Returns the nodes of the function and of its callees, saturated. Each function is counted once. Recursion and excessive nesting
// count as 0, because their import is an error.
uint64_t Importer::expanded_nodes(const FunctionView& f) {
  const auto [it, is_new] = expansions_.try_emplace(&f, 0);
  if (!is_new || expansion_depth_ > options_.max_depth) return it->second;
  const uint64_t nodes = nodes_within(f.body, bytes_field(7));
  return expansions_[&f] = nodes;
}

// Counts the nodes with this tag in a function or graph.
uint64_t Importer::nodes_within(Bytes container, uint32_t tag) {
  if (expansion_depth_ > options_.max_depth) return 0;
  ++expansion_depth_;
  uint64_t count = 0;
  const auto add = [&](uint64_t n) { count = checked_add(count, n).value_or(UINT64_MAX); };
  NodeView node;
  for (WireReader r(container); r.next();) {
    if (r.tag() != tag || !read_node(r.bytes(), &node)) continue;
    add(1);
    if (const FunctionView* called = find_row(node.domain, node.op_type) ? nullptr : find_function(node))
      add(expanded_nodes(*called));
    for (const AttributeView& a : node.attributes)
      if (a.type == AttrType::Graph) add(nodes_within(a.message, bytes_field(1)));
  }
  --expansion_depth_;
  return count;
}

}  // namespace rlxc::onnx_import
