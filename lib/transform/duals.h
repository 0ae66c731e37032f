// How each operation passes tangents from its operands to its results: one table from a kind to a rule.
#pragma once
#include <span>
#include <string>

#include "ir/term.h"
#include "transform/gradients.h"

namespace rlxc::transform {

// The node at hand with the tangents of its operands. An invalid term is the tangent of what does not move, which is zero: terms
// made of it are invalid too, so products with it cost nothing.
class Dual {
 public:
  Builder& b;
  const Graph& graph;
  const NodeId node;
  const Expand expand;

  Dual(Builder& builder, NodeId n, std::span<const ValueId> tangents, Expand e)
      : b(builder),
        graph(builder.graph()),
        node(n),
        expand(e),
        results(graph.result_count(n), Term{&b, {}}),
        tangents_(tangents) {}

  template <class A>
  const A& attrs() const {
    return graph.attrs<A>(node);
  }
  Term in(size_t i) const { return {&b, graph.operand(node, i)}; }
  Term out(size_t r = 0) const { return {&b, graph.result(node, r)}; }
  bool has(size_t i) const { return graph.operand(node, i).valid(); }
  Term t(size_t i) const { return {&b, i < tangents_.size() ? tangents_[i] : ValueId()}; }
  bool moves(size_t i) const { return t(i).valid(); }
  Term t_or_zeros(size_t i) const;
  // The same operation with other operands in the first places.
  Term again(std::initializer_list<Term> first) const;
  void give(Term t, size_t r = 0) { results[r] = t; }  // broadcast to the sizes of the result

  std::vector<Term> results;
  std::string inside;  // what stands in the way in a body

 private:
  std::span<const ValueId> tangents_;
};

// A sum in which an invalid term is zero.
inline Term plus(Term a, Term b) { return !a.valid() ? b : !b.valid() ? a : a + b; }
inline Term minus(Term a, Term b) { return !b.valid() ? a : !a.valid() ? -b : a - b; }

// False when these attributes or types have no rule.
using DualRule = bool (*)(Dual&);
struct DualEntry {
  OpKind op;
  DualRule rule;
};
DualRule find_dual(OpKind);  // null if there is none
bool moves_alike(Dual&);     // linear in the first operand: the same operation on its tangent
std::span<const DualEntry> elementwise_duals();
std::span<const DualEntry> movement_duals();
std::span<const DualEntry> reduction_duals();
std::span<const DualEntry> linear_duals();
std::span<const DualEntry> control_duals();

}  // namespace rlxc::transform
