// Forward-mode differentiation: how values move when others do, as nodes of the same graph. Rules of operations: duals.h.
// Source: Griewank and Walther, Evaluating Derivatives, chapter 3.
#pragma once
#include "transform/gradients.h"

namespace rlxc::transform {

// The tangents of ys where each xs[i] moves by dxs[i], which has its sizes; invalid for a y that does not move. Values of `xs`
// and of `fixed` count as independent, whatever made them. New nodes go where the builder places them, which must be after all
// ys. What does not move costs nothing. nullopt after errors: operations on the way that have no rule are each named.
// O(nodes of the graph + nodes made).
std::optional<std::vector<ValueId>> tangents(Builder&, std::span<const ValueId> ys, std::span<const ValueId> xs,
                                             std::span<const ValueId> dxs, std::span<const ValueId> fixed, Diagnostics&,
                                             Expand = nullptr);

}  // namespace rlxc::transform
