// How each operation computes for many samples at once: one table from a kind to a rule.
#pragma once
#include <span>
#include <string>

#include "ir/term.h"
#include "transform/expansion.h"

namespace rlxc::transform {

// The value that is the same for all samples, or has an axis for them in front.
struct Batched {
  ValueId v;
  bool has_axis = false;
};

// Returns the outputs of `body`, computed in the builder's graph on `inputs`, one for each input of the body. Empty after errors.
std::vector<Batched> batched_body(Builder&, GraphId body, std::span<const Batched> inputs, Dim size, Expand, Diagnostics&);

// The node at hand, of a graph that computes one sample, and its operands in the graph that computes all. Axes of attributes and
// ranks are those of one sample.
class Batch {
 public:
  Builder& b;
  const Graph& graph;
  const NodeId node;
  const Dim size;
  const Expand expand;
  Diagnostics& diagnostics;

  Batch(Builder& builder, const Graph& from, NodeId n, std::span<const Batched> operands, Dim samples, Expand e, Diagnostics& d)
      : b(builder),
        graph(from),
        node(n),
        size(samples),
        expand(e),
        diagnostics(d),
        results(from.result_count(n)),
        operands_(operands) {}

  template <class A>
  const A& attrs() const {
    return graph.attrs<A>(node);
  }
  OpKind op() const { return graph.op(node); }
  size_t count() const { return operands_.size(); }
  bool has(size_t i) const { return i < operands_.size() && operands_[i].v.valid(); }
  bool batched(size_t i) const { return has(i) && operands_[i].has_axis; }
  // Does any operand but those of `first` have the axis?
  bool batched_from(size_t first) const;
  Term in(size_t i) const {
    return {&b, i < operands_.size() ? operands_[i].v : ValueId()};
  }                             // as it is, with or without the axis
  Term lifted(size_t i) const;  // with the axis in front, whether it differs or not
  int rank(size_t i) const { return graph.rank(graph.operand(node, i)); }
  std::vector<Dim> dims(size_t i) const;  // of one sample
  std::vector<Dim> result_dims(size_t r = 0) const;
  std::vector<Dim> with_axis(std::vector<Dim> d) const {
    d.insert(d.begin(), size);
    return d;
  }
  // With the axis in front, then axes of size 1 up to the rank of a sample. What is shared stays as it is.
  Term aligned(size_t i, int sample_rank) const;
  std::span<const Batched> operands() const { return operands_; }

  void give(Term t, size_t r = 0) { results[r] = {t.v, true}; }
  std::vector<Batched> results;
  std::string why;  // it cannot be batched

 private:
  std::span<const Batched> operands_;
};

// False when these operands, attributes or types have no rule.
using BatchRule = bool (*)(Batch&);
struct BatchEntry {
  OpKind op;
  BatchRule rule;
};
BatchRule find_batch_rule(OpKind);  // null if there is none
std::span<const BatchEntry> movement_batches();
std::span<const BatchEntry> linear_batches();
std::span<const BatchEntry> control_batches();
bool elementwise_batch(Batch&);  // of every kind that is computed element by element

// Sizes of results tell how many elements there are that data decide: what differs between samples has no common size.
bool has_own_sizes(OpKind);

}  // namespace rlxc::transform
