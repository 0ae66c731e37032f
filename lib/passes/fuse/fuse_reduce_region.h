// fuse_reduce_region: the elementwise nodes that make what a Reduce reduces, and those that read its result, become steps of one
// ReduceRegion with it, as far as nothing else reads them: sum(x*mask) / sum(mask), the mean of squares, a maximum of absolute
// values that becomes a scale. Along the last axes also what reads the rows again, and further reductions of them: x / sum(x),
// x / max(|x|, eps), a softmax that is written out. Declined ("reduce_region") where others read what is reduced, where rows do
// not go along the last axes, where the region is too large for the target, or where the few rows occupy too little of it:
// "cost". O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_reduce_region(Module&, PassContext&);

}  // namespace rlxc
