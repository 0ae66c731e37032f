// What lies between values and a value that depends on them, and which of it derivatives pass.
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::transform {

// Floats carry derivatives, and so do quantized values that were made from floats: what moves them moves derivatives, as if
// rounding were not there (the straight-through estimate). The derivative of a quantized value is an f32.
bool is_float_tensor(const Graph&, ValueId);
DType derivative_dtype(const Graph&, ValueId);

enum class Follow : uint8_t { Derivatives, Everything };

// Are these values of the graph? A rule that fails leaves an invalid one.
bool are_values(const Graph&, std::initializer_list<std::span<const ValueId>>);

struct Between {
  std::vector<NodeId> nodes;  // that depend on a source and on which a target depends, in order
  std::vector<bool> reached;  // by value: the sources, and the results of these nodes that are followed and needed
  std::vector<bool> needed;   // by value: those on which a target depends, in whatever way
};
// Nothing is looked up beyond a source or a value of `fixed`. O(nodes).
Between between(const Graph&, std::span<const ValueId> targets, std::span<const ValueId> sources, std::span<const ValueId> fixed,
                Follow);

// By value: along how many paths derivatives get from it to a target. As a float: deep models have more than 2^64. O(nodes).
std::vector<double> count_paths(const Graph&, const Between&, std::span<const ValueId> targets);

// A node that takes a value with derivatives and gives none, though a target depends on what it gives.
struct Cut {
  NodeId node;
  // The numbers themselves go on, as integers. Comparisons and positions of largest elements choose among values: their
  // derivative is zero wherever it exists.
  bool converts = false;
};
std::vector<Cut> cuts(const Graph&, const Between&, std::span<const ValueId> fixed);

// Warns of piecewise constant functions on the way, by name: derivatives through them are 0, and Round passes them on.
void warn_of_steps(Diagnostics&, const Graph&, const Between&, std::span<const ValueId> fixed);
// The error for a cut that converts.
void add_conversion(Diagnostics&, const Graph&, NodeId);
// The error for a node without a rule. `inside`: why its rule or decomposition failed, or empty.
void add_unknown(Diagnostics&, std::string_view derivative, const Graph&, NodeId, bool has_rule, const std::string& inside);

}  // namespace rlxc::transform
