// How each operation passes a gradient from its results to its operands: one table from a kind to a rule.
#pragma once
#include <span>
#include <string>

#include "ir/term.h"
#include "transform/expansion.h"

namespace rlxc::transform {

// The node at hand, the gradients of its results and what its operands get.
class Adjoint {
 public:
  Builder& b;
  const Graph& graph;
  const NodeId node;
  const Expand expand;

  Adjoint(Builder& builder, NodeId n, std::span<const ValueId> gradients, const std::vector<bool>& active, Expand e)
      : b(builder), graph(builder.graph()), node(n), expand(e), gradients_(gradients), active_(active) {}

  template <class A>
  const A& attrs() const {
    return graph.attrs<A>(node);
  }
  Term in(size_t i) { return {&b, graph.operand(node, i)}; }
  Term out(size_t i = 0) { return {&b, graph.result(node, i)}; }
  bool has(size_t i) const { return graph.operand(node, i).valid(); }
  bool has_gradient(size_t result) const { return gradients_[result].valid(); }
  Term g(size_t result = 0);  // zeros where there is none
  // Does operand i need a gradient?
  bool wants(size_t i) const { return has(i) && active_[graph.operand(node, i).raw]; }
  // The part of this node; summed over the axes along which the operand was broadcast.
  void give(size_t i, Term part) {
    if (wants(i)) parts.push_back({graph.operand(node, i), part});
  }

  struct Part {
    ValueId of;
    Term value;
  };
  std::vector<Part> parts;
  std::string inside;  // what stands in the way in a body

 private:
  std::span<const ValueId> gradients_;
  const std::vector<bool>& active_;
};

// False when these attributes or types have no rule.
using Rule = bool (*)(Adjoint&);
struct RuleEntry {
  OpKind op;
  Rule rule;
};
Rule find_rule(OpKind);  // null if there is none
std::span<const RuleEntry> movement_rules();
std::span<const RuleEntry> reduction_rules();
std::span<const RuleEntry> linear_rules();
std::span<const RuleEntry> attention_rules();
std::span<const RuleEntry> control_rules();
std::span<const RuleEntry> recurrent_rules();
std::span<const RuleEntry> quantized_rules();
std::span<const RuleEntry> selection_rules();  // of several operands, element by element

// The derivative of an elementwise operation of one operand at x, where it is y; invalid if it has none. What is constant in
// steps has the derivative 0, except round, which lets gradients pass.
Term slope(OpKind, double alpha, double beta, Term x, Term y);
bool has_slope(OpKind);
void slope_parameters(const Attrs&, double* alpha, double* beta);

// The gradient times a factor, or over a divisor, which may be infinite or NaN where the gradient is 0: the product is 0 there.
Term product(Term g, Term factor);
Term quotient(Term g, Term by);
Term pow_slope(Term x, Term y);               // of pow(x, y) by x; 0 where it is infinite and the power is not
Term exponent_slope(Term x, Term z);          // of z = pow(x, y) by y
Term angle_slope(Term x, Term y, Term side);  // side / (x^2 + y^2), and 0 at the origin

}  // namespace rlxc::transform
