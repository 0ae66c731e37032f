// A loop over an axis, written with a function of one step.
#pragma once
#include <functional>

#include "ir/term.h"

namespace rlxc::transform {

// One step: what its states are now, the slices at this place, and the captured values; it answers the next states, then what is
// stacked.
using ScanStep =
    std::function<std::vector<Term>(std::span<const Term> states, std::span<const Term> slices, std::span<const Term> captures)>;

// The final states, then the stacks, both in the order of the step. Slices lie along `axis`, and so do stacks; `reverse` goes
// from the last place to the first. Empty after errors. O(nodes of a step).
std::vector<Term> scan(Builder&, std::span<const Term> states, std::span<const Term> sliced, std::span<const Term> captured,
                       int64_t axis, bool reverse, const ScanStep&);

}  // namespace rlxc::transform
