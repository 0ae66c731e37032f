// What fused and composite operations consist of: one table from a kind to the function that writes it with simpler kinds.
// A kind's expansion never leads back to the kind itself. Statistics of narrow floats are computed in f32.
#pragma once
#include <span>
#include <vector>

#include "ir/builder.h"

namespace rlxc::legalise {

// The node that is expanded and a builder that places nodes before it.
struct Expansion {
  Graph& g;
  NodeId n;
  Builder b;

  Expansion(Graph& graph, NodeId node) : g(graph), n(node), b(graph, nullptr, node) {}
  template <class A>
  const A& attrs() const {
    return g.attrs<A>(n);
  }
  ValueId in(size_t i) const { return g.operand(n, i); }
  bool has(size_t i) const { return in(i).valid(); }
  std::vector<Dim> dims(ValueId v) const { return {g.dims(v).begin(), g.dims(v).end()}; }
  std::vector<Dim> result_dims() const { return dims(g.result(n)); }
  DType result_dtype() const { return g.dtype(g.result(n)); }
  Dim dim(ValueId v, int axis) const { return g.dims(v)[static_cast<size_t>(axis < 0 ? axis + g.rank(v) : axis)]; }

  ValueId num(ValueId like, double v) { return b.scalar(g.dtype(like), v); }  // a scalar of like's type
  ValueId wide(ValueId);                                                      // f16 and bf16 as f32
  ValueId activation(ValueId, const Epilogue&);
  ValueId along(ValueId vector, int64_t axis, int rank);  // a vector as [n,1,..,1] so that it broadcasts along `axis` of `rank`
  ValueId size(Dim);                                      // an i64 scalar, constant when the size is
  ValueId positions(Dim n);                               // i64 vector 0, 1, .., n-1
};

// The values of the node's results, or nothing when these attributes or types have no expansion.
using Decomposition = std::vector<ValueId> (*)(Expansion&);
Decomposition decomposition(OpKind);  // null when there is none

struct DecompositionEntry {
  OpKind op;
  Decomposition expand;
};
std::span<const DecompositionEntry> fused_decompositions();
std::span<const DecompositionEntry> norm_decompositions();
std::span<const DecompositionEntry> attention_decompositions();
std::span<const DecompositionEntry> linear_decompositions();
std::span<const DecompositionEntry> elementwise_decompositions();
std::span<const DecompositionEntry> movement_decompositions();
std::span<const DecompositionEntry> resize_decompositions();
std::span<const DecompositionEntry> recurrent_decompositions();
std::span<const DecompositionEntry> dynamic_decompositions();

// Replaces the results of n by its expansion, gives the new nodes n's provenance, and erases n. New nodes are numbered from the
// node_capacity before. False, and nothing changed, when there is no expansion.
bool expand_node(Graph&, NodeId n, Decomposition);
// The nodes of one kind; returns how many were expanded.
int64_t expand_all(Graph&, OpKind, Decomposition);
inline int64_t expand_all(Graph& g, OpKind op) { return expand_all(g, op, decomposition(op)); }

}  // namespace rlxc::legalise
