// Mixtures of experts become k rows for each token, each a product with the matrices of its own expert (GroupedMatMul):
//   sum over e of expert_e(x) * share[:, e]            share: 0 for all but the k best of TopK (expert_shares.h)
//   for each e: y[t] += expert_e(x[t]) * share[t, j]   t, j: NonZero of "expert e is choice j of token t"
// The experts are one small graph of products and elementwise operations over different weights (expert_rows.h): written out one
// by one, or once with a leading axis of experts. Only where the target has the kernel, and where the time of the rows is not
// larger than that of the experts (Decision "mixture_of_experts") or the target cannot run what finds the rows. An expert that a
// token does not choose no longer spreads infinities to it. O(nodes * experts).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_moe(Module&, PassContext&);

}  // namespace rlxc
