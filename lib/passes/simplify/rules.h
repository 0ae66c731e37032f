// Framework for the rules of algebraic_simplify. A rule inspects one node and rewrites it through the Simplifier (true), or
// declines (false). New nodes are inserted before the node and erased if the rule declines.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "passes/pass.h"

namespace rlxc::simplify {

class Simplifier;

struct Rule {
  OpKind trigger;
  std::string_view name;
  bool fast;  // not exact
  bool (*apply)(Simplifier&, NodeId);
};
std::span<const Rule> arithmetic_rules();
std::span<const Rule> movement_rules();
std::span<const Rule> scatter_rules();
std::span<const Rule> rounding_rules();

class Simplifier {
 public:
  Simplifier(Graph&, const PassContext&);

  // Runs all rules to a fixed point. Adds to hits[rule], numbered as in `rules()`.
  void run(std::vector<int64_t>* hits);
  static const std::vector<Rule>& rules();

  Graph& graph() { return graph_; }
  DimTable& dims() { return graph_.module().dims; }
  bool fast_math() const { return context_.options.fast_math; }
  Builder& at(NodeId n) {
    builder_.insert_before(n);
    return builder_;
  }
  NodeId def(ValueId v, OpKind op) const;  // the node that defines v if it has this kind, else invalid

  // The common value of all elements of a constant of a real type; nullopt if they differ.
  std::optional<double> uniform(ValueId);
  // A tensor of v's type with all elements equal to `value`.
  ValueId filled(NodeId before, ValueId v, double value);

  // Replaces result 0 of `n` by v and erases n. Declines if v's type is not provably that of the result.
  bool replace(NodeId n, ValueId v);
  bool set_operand(NodeId n, size_t i, ValueId v);

 private:
  void push(NodeId);
  void push_users(ValueId);
  void erase_if_dead(NodeId);
  bool apply(NodeId, const Rule&);

  Graph& graph_;
  const PassContext& context_;
  Builder builder_;
  std::vector<NodeId> queue_;
  std::vector<bool> queued_;
  std::vector<NodeId> stack_;
  struct Known {
    bool seen = false;
    std::optional<double> value;
  };
  std::vector<Known> uniform_;  // by DataId
};

bool same_dims(DimTable&, std::span<const Dim>, std::span<const Dim>);  // proven
// Numpy broadcast of dims that are equal or 1 as they are; nullopt if an equality would have to be assumed.
std::optional<std::vector<Dim>> broadcast_exact(std::span<const std::span<const Dim>>);

inline ValueId arg(Simplifier& s, NodeId n, size_t i = 0) { return s.graph().operand(n, i); }

}  // namespace rlxc::simplify
