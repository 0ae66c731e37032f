// Tools for kernel passes: rebuilding expressions with substitutions, and walks over statements.
#pragma once
#include <functional>
#include <unordered_map>
#include <vector>

#include "kernel/expr.h"

namespace rlxc::kernel {

// Rebuilds expressions. `substitute` is applied to a node before its operands; a valid result replaces the node. Results are
// cached: call forget() when the substitution changes. No recursion.
class Rebuilder {
 public:
  Rebuilder(Kernel* k, std::function<ExprId(ExprId)> substitute) : k_(k), substitute_(std::move(substitute)) {}
  ExprId operator()(ExprId root, bool keep_root = false);  // keep_root: do not substitute the root
  void forget() { done_.clear(); }

 private:
  Kernel* k_;
  std::function<ExprId(ExprId)> substitute_;
  std::unordered_map<uint32_t, ExprId> done_;
};

// Returns the node with other operands, folded as in expr.h. Their types must match the old ones.
ExprId with_operands(Kernel*, const ExprNode&, const std::array<ExprId, 3>& args);

// Calls f(statement) for every statement, outer before inner, in order.
template <class Body, class F>
void for_each_stmt(Body& body, const F& f) {
  for (auto& s : body) {
    f(s);
    for_each_stmt(s.body, f);
    for_each_stmt(s.other, f);
  }
}

// Returns the expressions below the roots, each once, users before operands.
std::vector<ExprId> nodes_below(const Kernel&, const std::vector<ExprId>& roots);

// Rebuilds an expression, operands first. rebuilt(id, node, args) returns the replacement of a node whose operands became `args`.
// No recursion; visits each node once.
template <class F>
ExprId rebuild_bottom_up(const Kernel& k, ExprId root, const F& rebuilt) {
  if (!root.valid()) return root;
  const std::vector<ExprId> nodes = nodes_below(k, {root});
  std::unordered_map<uint32_t, ExprId> done;
  for (size_t i = nodes.size(); i-- > 0;) {
    const ExprNode e = k.expr(nodes[i]);
    std::array<ExprId, 3> args = e.args;
    for (ExprId& a : args)
      if (a.valid()) a = done[a.raw];
    done[nodes[i].raw] = rebuilt(nodes[i], e, args);
  }
  return done[root.raw];
}

}  // namespace rlxc::kernel
