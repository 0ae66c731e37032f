// numeric_lint: warns of computations that give infinities or not-a-number whatever the inputs are: constants that hold them (a
// mask of -inf that only reaches a softmax is meant), operations whose operands are known to lie outside their domain by interval
// arithmetic over the whole graph, and epsilons that their type cannot hold. Changes nothing. O(nodes + elements of constants
// of up to 64 Ki elements).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult numeric_lint(Module&, PassContext&);

}  // namespace rlxc
