// Analyses attention masks. Exporters build them from ranges, comparisons and constants. A mask that provably is causal or a
// sliding window needs no operand; the rest (padding) stays a small one.
#pragma once
#include "passes/match.h"

namespace rlxc::recognise {

struct MaskShape {
  Dim queries, keys;  // last two axes of the scores
};

// The visible positions: the conjunction of all members.
struct Visible {
  bool causal = false;                         // key <= query, with the last query at the last key
  std::optional<int64_t> window;               // key >= query - window
  std::vector<std::pair<ValueId, bool>> rest;  // values that must be true or not 0 (negated if the flag is set)
};

// Decomposes a bool value, or its negation if `negated`, into a conjunction. Reads Constants and Params with data of up to 2^24
// elements. O(size of the expression).
Visible match_visible(const Graph&, ValueId mask, const MaskShape&, bool negated = false);

// A condition that replaces scores by a masking number.
struct AdditiveMask {
  ValueId condition;
  bool negated = false;  // the condition is true for hidden scores
  double hidden = 0;
};

// The positions that an additive mask leaves visible. Matches constants of 0 and masking numbers, Where(visible, 0, hidden) in
// any form, bools times a masking number, triangles of it, masks times bools, and masks with further hidden positions. `hidden`:
// the masking number, the one closest to 0 of several. Bounds as in match_visible.
std::optional<Visible> match_additive(const Graph&, ValueId mask, const MaskShape&, double* hidden);

// Returns whether adding c to a score of this type always hides it (the sum is c, or -inf).
bool hides(DType, double c);

}  // namespace rlxc::recognise
