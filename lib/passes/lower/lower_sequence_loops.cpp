// Rewrites a Loop that appends one tensor per iteration to a sequence, concatenated after the loop, to return the stacked tensors
// as a scan output, so that no sequence is left. A loop with a constant trip count gets it as the dim of its scan outputs.
// O(nodes).
#include <numeric>
#include <optional>

#include "ir/builder.h"
#include "ir/graphs.h"
#include "passes/lower/trip_count.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

struct Collected {
  size_t carry = 0;
  NodeId insert;  // in the body
  NodeId concat;
};

class LoopRewriter {
 public:
  LoopRewriter(Graph& g, NodeId loop) : graph_(g), module_(g.module()), loop_(loop), body_(module_.graph(g.bodies(loop)[0])) {}

  // Returns the number of removed sequences.
  int64_t run() {
    int64_t rewritten = 0;
    while (const auto c = find()) {
      rewrite(*c);
      ++rewritten;
    }
    return rewritten;
  }

 private:
  size_t carries() const { return static_cast<size_t>(graph_.attrs<LoopAttrs>(loop_).carries); }

  std::optional<Collected> find() const {
    for (size_t j = 0; j < carries(); ++j) {
      Collected c{j, {}, graph_.only_user(graph_.result(loop_, j))};
      const ValueId sequence = body_.result(body_.inputs()[kBeforeCarries + j]);
      c.insert = body_.only_user(sequence);
      if (!c.concat.valid() || graph_.op(c.concat) != OpKind::ConcatFromSequence) continue;
      if (graph_.op(graph_.def(graph_.operand(loop_, kBeforeCarries + j))) != OpKind::SequenceEmpty) continue;
      if (!c.insert.valid() || body_.op(c.insert) != OpKind::SequenceInsert || body_.operands(c.insert).size() != 2) continue;
      if (body_.operand(c.insert, 0) != sequence || !body_.has_one_use(body_.result(c.insert))) continue;
      if (body_.outputs()[1 + j] == body_.result(c.insert)) return c;
    }
    return std::nullopt;
  }

  void rewrite(const Collected& c) {
    const size_t carry = c.carry, count = carries();
    const ValueId element = body_.operand(c.insert, 1);
    std::vector<ValueId> outputs(body_.outputs().begin(), body_.outputs().end());
    outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(1 + carry));
    outputs.push_back(element);
    body_.set_outputs(outputs);
    body_.erase(c.insert);
    const NodeId input = body_.inputs()[kBeforeCarries + carry];
    body_.remove_input(input);
    body_.erase(input);

    std::vector<ValueId> operands(graph_.operands(loop_).begin(), graph_.operands(loop_).end());
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(kBeforeCarries + carry));
    Builder b(graph_, nullptr, loop_);
    b.set_node_name(graph_.node_name(loop_));
    const GraphId bodies[] = {body_.id()};
    const NodeId made = b.create_node(OpKind::Loop, operands, LoopAttrs{static_cast<int64_t>(count) - 1}, bodies);
    const size_t results = graph_.result_count(made);
    const ValueId stacked = graph_.result(made, results - 1);
    if (const auto trips = trip_count(graph_, made)) {
      Type t = graph_.type(stacked);
      module_.dims.assume_equal(t.dims[0], Dim(*trips));
      t.dims[0] = Dim(*trips);
      graph_.set_type(stacked, module_.types.intern(std::move(t)));
    }
    for (size_t r = 0; r < graph_.result_count(loop_); ++r)
      if (r != carry) graph_.replace_all_uses(graph_.result(loop_, r), graph_.result(made, r < carry ? r : r - 1));
    replace_concat(c.concat, stacked);
    graph_.erase(loop_);
    loop_ = made;
  }

  // The elements are stacked along axis 0 of `stacked`.
  void replace_concat(NodeId concat, ValueId stacked) {
    const SequenceConcatAttrs a = graph_.attrs<SequenceConcatAttrs>(concat);
    const auto axis = static_cast<size_t>(a.axis);
    std::vector<int64_t> perm(static_cast<size_t>(graph_.rank(stacked)));
    std::iota(perm.begin(), perm.end(), 0);
    perm.erase(perm.begin());
    perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    Builder b(graph_, nullptr, concat);
    b.set_node_name(graph_.node_name(concat));
    ValueId y = b.transpose(stacked, perm);
    if (!a.new_axis) {
      std::vector<Dim> dims(graph_.dims(y).begin(), graph_.dims(y).end());
      dims[axis] = module_.dims.mul(dims[axis], dims[axis + 1]);
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
      y = b.reshape(y, dims);
    }
    const ValueId old = graph_.result(concat);
    const std::vector<Dim> from(graph_.dims(old).begin(), graph_.dims(old).end()),
        to(graph_.dims(y).begin(), graph_.dims(y).end());
    for (size_t i = 0; i < from.size(); ++i) module_.dims.assume_equal(from[i], to[i]);
    graph_.replace_all_uses(old, y);
    graph_.erase(concat);
  }

  Graph& graph_;
  Module& module_;
  NodeId loop_;
  Graph& body_;
};

}  // namespace

PassResult lower_sequence_loops(Module& m, PassContext&) {
  int64_t rewritten = 0;
  for (GraphId id : graphs_in_use(m)) {
    Graph& g = m.graph(id);
    std::vector<NodeId> loops;
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Loop) loops.push_back(n);
    for (NodeId n : loops) rewritten += LoopRewriter(g, n).run();
  }
  return {rewritten > 0, {{"sequences_lowered", rewritten}}};
}

}  // namespace rlxc
