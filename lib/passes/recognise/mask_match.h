// What a mask says. Exporters build attention masks from ranges, comparisons and constants; a mask that provably is causal (or a
// sliding window) needs no operand, and what remains of it (padding) stays a small one.
#pragma once
#include "passes/match.h"

namespace rlxc::recognise {

struct MaskShape {
  Dim queries, keys;  // the last two axes of the scores
};

// The positions that a mask lets through: those of all parts together.
struct Visible {
  bool causal = false;                         // key <= query (queries stand at the end of the keys)
  std::optional<int64_t> window;               // key >= query - window
  std::vector<std::pair<ValueId, bool>> rest;  // values that must be true, or not 0 (if the flag is set, the opposite), as well
};

// The conjunction that a bool value (or, if `negated`, its opposite) is. Constants and Params with data of up to 2^24 elements
// are read, once each. O(size of the expression).
Visible match_visible(const Graph&, ValueId mask, const MaskShape&, bool negated = false);

// Scores that a condition replaces by a number that hides.
struct AdditiveMask {
  ValueId condition;
  bool negated = false;  // true means hidden
  double hidden = 0;
};

// What a mask that is added lets through: a constant of 0 and numbers that hide, Where(visible, 0, hidden) in any spelling, truth
// values times such a number, a triangle of it, a mask times truth values, and a mask with more hidden. `hidden`: the number that
// hides, the least hiding one of several. Bounds as of match_visible.
std::optional<Visible> match_additive(const Graph&, ValueId mask, const MaskShape&, double* hidden);

// Does adding this number to a score of the type always hide it (the sum is the number itself, or -inf)?
bool hides(DType, double c);

}  // namespace rlxc::recognise
