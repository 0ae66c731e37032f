// Reverse-mode differentiation: the gradient of values by others, as nodes of the same graph.
// Source: Griewank and Walther, Evaluating Derivatives, chapter 3. Rules of operations: rules.h.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "ir/builder.h"
#include "transform/expansion.h"

namespace rlxc::transform {

// The gradients of sum(seeds[0] * ys[0]) + sum(seeds[1] * ys[1]) + .. by each of `wrt`, in their types; an invalid seed stands
// for ones. Values of `wrt` and of `fixed` count as independent, whatever made them; only floats carry gradients, and quantized
// values made from floats (paths.h). New nodes go where the builder places them, which must be after all ys. A value on which
// none depends gets zeros. nullopt after errors: operations on the way that have no rule are each named.
// O(nodes of the graph + nodes made).
std::optional<std::vector<ValueId>> gradients(Builder&, std::span<const ValueId> ys, std::span<const ValueId> seeds,
                                              std::span<const ValueId> wrt, std::span<const ValueId> fixed, Diagnostics&,
                                              Expand = nullptr);
inline std::optional<std::vector<ValueId>> gradients(Builder& b, ValueId y, ValueId seed, std::span<const ValueId> wrt,
                                                     std::span<const ValueId> fixed, Diagnostics& d, Expand expand = nullptr) {
  return gradients(b, std::array{y}, std::array{seed}, wrt, fixed, d, expand);
}

// What y would be if each of `from` were the value at the same place of `to`: the nodes between are made again, the others
// shared. y itself if nothing differs. Invalid after errors.
ValueId substitute(Builder&, ValueId y, std::span<const ValueId> from, std::span<const ValueId> to, Diagnostics&);

// Does y depend on x, by values that carry gradients or others? O(nodes).
bool depends_on(const Graph&, ValueId y, ValueId x);

}  // namespace rlxc::transform
