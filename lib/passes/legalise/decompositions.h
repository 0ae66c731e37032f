// Decompositions of fused and composite ops: a table from op kind to the function that builds it from simpler kinds, never from
// its own kind. Statistics of f16 and bf16 are computed in f32.
#pragma once
#include <span>
#include <vector>

#include "ir/builder.h"

namespace rlxc::legalise {

// The node to decompose, and a builder that inserts before it.
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
  ValueId wide(ValueId);                                                      // f16 and bf16 cast to f32
  ValueId activation(ValueId, const Epilogue&);
  ValueId rounded(ValueId,
                  size_t scale);  // quantized by operand `scale` and the zero point after it, and dequantized, if they are there
  ValueId along(ValueId vector, int64_t axis, int rank);  // a vector reshaped to broadcast along `axis` of `rank`
  ValueId size(Dim);                                      // an i64 scalar, constant if the dim is static
  ValueId positions(Dim n);                               // i64 vector 0, 1, .., n-1
};

// Returns the values that replace the node's results, or nothing if its attributes or types have no decomposition.
using Decomposition = std::vector<ValueId> (*)(Expansion&);
Decomposition decomposition(OpKind);  // null if there is none

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

// Replaces n by its decomposition, passes its provenance to the new nodes and erases n. New node ids start at the previous
// node_capacity. Returns false and changes nothing if there is no decomposition.
bool expand_node(Graph&, NodeId n, Decomposition);
// Decomposes all nodes of one kind; returns their number.
int64_t expand_all(Graph&, OpKind, Decomposition);
inline int64_t expand_all(Graph& g, OpKind op) { return expand_all(g, op, decomposition(op)); }

}  // namespace rlxc::legalise
