// Helpers for passes that replace a pattern by one node: inspect values, check users, replace, erase dead nodes and record
// decisions. Matching walks def-use chains upward from the last node of a pattern. A pass that visits each node once and a
// bounded number of operands is linear.
#pragma once
#include <initializer_list>
#include <optional>
#include <span>

#include "passes/pass.h"

namespace rlxc::match {

// The common value of all elements of `v`: a Constant, or a Param with data, of at most 64 elements or a splat, seen through Cast
// of numbers, Expand and Reshape. O(1).
std::optional<double> scalar(const Graph&, ValueId v);
// The data of a numeric Constant or Param; null if unknown.
const TensorData* data_of(const Graph&, ValueId v);
// Returns whether `v` is a scalar that rounds to `want` in its type (exact for small integers).
bool is_scalar(const Graph&, ValueId v, double want);
bool same_number(const Graph&, ValueId a, ValueId b);  // one value, equal constants of one element, or both absent
// The elements of a Constant or Param with data as numbers; empty if there are more than `limit` or they are unknown.
std::vector<double> elements(const Graph&, ValueId v, int64_t limit);
// Returns whether v, a zero point, is absent or known to be 0 in all elements, also through Reshape and Expand. O(elements).
bool is_absent_or_zero(const Graph&, ValueId v);
// Returns whether v is converted from integers, also through Reshape.
bool has_integers(const Graph&, ValueId v);

// The node that defines `v` if it has this kind, else invalid.
NodeId defining_op(const Graph&, ValueId v, OpKind);
// The operand of a binary node that is not `v`; invalid if neither or both are `v`.
ValueId other(const Graph&, NodeId, ValueId v);
// A binary node as (x, c) with scalar c: in either order for commutative kinds, else c second.
struct WithScalar {
  ValueId x;
  double c = 0;
};
std::optional<WithScalar> with_scalar(const Graph&, ValueId v, OpKind);
// x and c of Mul(x, c), or Div(x, d) with c = 1/d.
std::optional<WithScalar> scaled(const Graph&, ValueId v);

// `root` as c * f1 * f2 * ...: expands Mul, Div by a scalar and Pow to 2 or 3 to a small depth, but not `stop`. Factors are
// sorted by id and repeated according to their power.
struct Product {
  double c = 1;
  std::vector<ValueId> factors;
};
Product product(const Graph&, ValueId root, ValueId stop);
// Returns whether c equals `want` up to rounding to v's type (and of constants written with 7 digits).
bool near(const Graph&, ValueId v, double c, double want);

bool is_float(const Graph&, ValueId v);
bool has_narrow_type(const Graph&, ValueId v);  // false for absent values
bool same_type(const Graph&, ValueId, ValueId);
bool same_dims(const Graph&, ValueId, ValueId);
// Returns whether v is known at load time: a Param, a Constant, or computed from these alone through at most `depth` nodes.
bool is_weight(const Graph&, ValueId v, int depth = 8);
std::optional<int64_t> size_at(const Graph&, ValueId v, int axis);  // static dim; negative axes count from the end
int64_t bytes(const Graph&, ValueId v);                             // 0 if a dim is symbolic

// Erases the node if it has no users, then its operands' nodes in the same way. Keeps Inputs, Params, nodes with bodies and nodes
// with effects. O(erased).
void erase_dead(Graph&, NodeId);

// Replaces `from` by `to` and erases nodes that are dead afterwards.
void replace(Graph&, ValueId from, ValueId to);

// The same; the node of `to` takes over the provenance of all `members`.
void replace_group(Graph&, std::span<const NodeId> members, ValueId from, ValueId to);

// Execution order of the nodes at construction; later nodes count as first.
class Order {
 public:
  explicit Order(const Graph&);
  uint32_t at(NodeId n) const { return n.raw < position_.size() ? position_[n.raw] : 0; }
  // Moves the nodes that compute the weight `v` before `n` if they come later. O(nodes moved).
  void hoist(Graph&, ValueId v, NodeId n);

 private:
  std::vector<uint32_t> position_;
};

// A vector added to every row of x, as [N] or a scalar: `v` reshaped, at b's insertion point, if its leading dims are 1 and its
// last dim is that of x or 1. Invalid otherwise.
ValueId as_row(Builder& b, ValueId v, ValueId x);
bool is_row(const Graph&, ValueId v, ValueId x);
// Returns whether v is a weight [1,C,1,..] or [C,1,..]: one number per channel of y [N,C,..].
bool per_channel(const Graph&, ValueId v, ValueId y);

Symbol label_symbol(const Graph&, NodeId);  // Graph::label as a symbol, as recorded in decisions; not necessarily unique

// Decisions. Construct them before the rewrite erases `members`, whose labels they record. Launches saved: members - 1.
Decision fused(const Graph&, std::string_view pattern, NodeId root, std::span<const NodeId> members, int64_t bytes_saved = 0);
// Records a fusion before the decisions made since there were `first`. These are declines of the fused node and so follow it.
void record_before(PassContext&, size_t first, Decision);
Decision declined(const Graph&, std::string_view pattern, NodeId root, std::string_view reason, std::string detail,
                  std::string hint = {});
// Records a decline and returns false. A decline recorded by `decline_end` lapses if a later fusion takes the node.
bool decline_end(PassContext&, const Graph&, std::string_view pattern, NodeId root, std::string_view reason, std::string detail,
                 std::string hint = {});
bool decline(PassContext&, const Graph&, std::string_view pattern, NodeId root, std::string_view reason, std::string detail,
             std::string hint = {});

// Calls f(graph) for every graph of the module, including bodies.
template <class F>
void each_graph(Module& m, F f) {
  for (size_t i = 0; i < m.graph_count(); ++i) f(m.graph(GraphId(i)));
}

}  // namespace rlxc::match
