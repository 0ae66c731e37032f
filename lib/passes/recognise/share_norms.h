// Norms of one value that differ in scale and shift (a block that attends and transforms beside each other, as in GPT-NeoX)
// become one norm without them where matrix products with weights are all that reads them: the scale goes into the rows of the
// weights, and the product of the shift with the weights into the bias. The products then read one value
// (fuse_shared_input_matmul).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult share_norms(Module&, PassContext&);

}  // namespace rlxc
