// A mixture of experts that is written as all experts for all tokens, times shares that are 0 for all but the k best:
//   sum over e of expert_e(x) * share[:, e],  share = scatter(zeros, best of TopK, shares of these)
// becomes k rows for each token, each a product with the matrices of its own expert (GroupedMatMul). The experts are one small
// graph of products and elementwise operations over different weights: written out one by one, or once with a leading axis of
// experts. Only where the target has the kernel, and where the time of the rows is not larger than that of the experts (Decision
// "mixture_of_experts"). An expert that a token does not choose no longer spreads infinities to it. O(nodes * experts).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_moe(Module&, PassContext&);

}  // namespace rlxc
