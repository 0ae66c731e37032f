// Rewrites small patterns of nodes into cheaper equal ones until none applies: neutral elements, double operations, chains of
// views, conditions that are constant. The rules are two tables (rules_arithmetic.cpp, rules_movement.cpp). A rule marked
// `fast` changes rounding or the treatment of NaN and infinity, and runs only under options.fast_math; the others keep every
// value (the sign of a zero apart). A worklist visits each node, and again what a rewrite touched: O(nodes + rewrites).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult algebraic_simplify(Module&, PassContext&);

}  // namespace rlxc
