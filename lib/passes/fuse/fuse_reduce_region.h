// fuse_reduce_region: the elementwise nodes that make what a Reduce reduces, and those that alone read its result, become steps
// of one NormRegion around the reduction: sum(x*mask) / sum(mask), the mean of squares, a maximum of absolute values that becomes
// a scale. Declined ("reduce_region") where others read what is reduced, where the region is too large for the target, or where
// the few results of the reduction occupy too little of it: "cost". O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult fuse_reduce_region(Module&, PassContext&);

}  // namespace rlxc
