// Small tools for passes that find a pattern and put one node in its place: what is this value, who else reads it, replace and
// sweep, and record the decision. Matching walks def-use chains upward from the last node of a pattern, so a pass that visits
// each node once and looks at a bounded number of operands is linear.
#pragma once
#include <initializer_list>
#include <optional>
#include <span>

#include "passes/pass.h"

namespace rlxc::match {

// The number that every element of `v` equals: a Constant, or a Param with data, of at most 64 elements or a splat, seen through
// Cast (of numbers), Expand and Reshape. O(1).
std::optional<double> scalar(const Graph&, ValueId v);
// The numbers of a Constant or of a Param with data; null if none are known.
const TensorData* data_of(const Graph&, ValueId v);
// `v` is a scalar that rounds to `want` in the precision of its type (exact for small integers).
bool is_scalar(const Graph&, ValueId v, double want);
// All elements of a Constant or Param with data as numbers; empty when there are more than `limit` or none are known.
std::vector<double> elements(const Graph&, ValueId v, int64_t limit);

// The node that makes `v` if it is of this kind, else invalid.
NodeId defining_op(const Graph&, ValueId v, OpKind);
// Of a commutative pair of operands, the one that is not `v`; invalid if neither or both are.
ValueId other(const Graph&, NodeId, ValueId v);
// The operands of a binary node as (x, c) with c a scalar, in either order for commutative kinds, else only as written.
struct WithScalar {
  ValueId x;
  double c = 0;
};
std::optional<WithScalar> with_scalar(const Graph&, ValueId v, OpKind);
// x and c of Mul(x, c), or Div(x, d) with c = 1/d.
std::optional<WithScalar> scaled(const Graph&, ValueId v);

// `root` as c * f1 * f2 * ...: Mul, Div by a scalar and Pow to 2 or 3 are opened up to a small depth, except `stop`, which stays
// a factor. Factors are sorted by id and repeat as often as their power.
struct Product {
  double c = 1;
  std::vector<ValueId> factors;
};
Product product(const Graph&, ValueId root, ValueId stop);
// c equals `want` up to the rounding of v's type (and of constants written with 7 digits).
bool near(const Graph&, ValueId v, double c, double want);

bool is_float(const Graph&, ValueId v);
bool same_type(const Graph&, ValueId, ValueId);
bool same_dims(const Graph&, ValueId, ValueId);
// Known before the first run: Params, Constants and what is computed from them alone, through at most `depth` nodes.
bool is_weight(const Graph&, ValueId v, int depth = 8);
std::optional<int64_t> size_at(const Graph&, ValueId v, int axis);  // static size; negative axes count from the end
int64_t bytes(const Graph&, ValueId v);                             // 0 when a size is symbolic

// Erases the node when nothing reads it, then its operands' nodes in the same way. Inputs, Params and nodes that own bodies or
// have effects stay. O(erased).
void erase_dead(Graph&, NodeId);

// Puts `to` in the place of `from` and sweeps what only `from` needed.
void replace(Graph&, ValueId from, ValueId to);

// The same where the node that makes `to` stands for all `members`: it names them as its sources.
void replace_group(Graph&, std::span<const NodeId> members, ValueId from, ValueId to);

// Execution order of the nodes that a graph had when this was made; nodes made since count as early.
class Order {
 public:
  explicit Order(const Graph&);
  uint32_t at(NodeId n) const { return n.raw < position_.size() ? position_[n.raw] : 0; }
  // Moves the nodes that compute the weight `v` (see is_weight) to before `n` where they come later.
  void hoist(Graph&, ValueId v, NodeId n);

 private:
  std::vector<uint32_t> position_;
};

// A vector added to every row of x's shape, as [N] or a scalar: `v` reshaped (new nodes go before b's insertion point) when its
// leading axes are 1 and its last is x's or 1; invalid otherwise.
ValueId as_row(Builder& b, ValueId v, ValueId x);
bool is_row(const Graph&, ValueId v, ValueId x);
// A weight of sizes [1,C,1,..] or [C,1,..]: one number per channel of y [N,C,..].
bool per_channel(const Graph&, ValueId v, ValueId y);

Symbol label_symbol(const Graph&, NodeId);  // behind Graph::label: what decisions record. Equal names may have several

// Decisions. `members` are labelled before the rewrite erases them; launches saved = members - 1 unless given.
Decision fused(const Graph&, std::string_view pattern, NodeId root, std::span<const NodeId> members, int64_t bytes_saved = 0);
// Records a fusion whose member was refused something more since there were `first` decisions: those refusals hold of what was
// formed, and follow it.
void record_before(PassContext&, size_t first, Decision);
Decision declined(const Graph&, std::string_view pattern, NodeId root, std::string_view reason, std::string detail,
                  std::string hint = {});
// Records it; false: nothing was done. The refusal of `decline_end`, of what a kernel could end with, lapses when any later
// fusion takes the node in.
bool decline_end(PassContext&, const Graph&, std::string_view pattern, NodeId root, std::string_view reason, std::string detail,
                 std::string hint = {});
bool decline(PassContext&, const Graph&, std::string_view pattern, NodeId root, std::string_view reason, std::string detail,
             std::string hint = {});

// Calls f(graph) for every graph of the module, bodies included.
template <class F>
void each_graph(Module& m, F f) {
  for (size_t i = 0; i < m.graph_count(); ++i) f(m.graph(GraphId(i)));
}

}  // namespace rlxc::match
