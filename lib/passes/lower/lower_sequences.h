// Sequences and optionals whose elements are known one by one (made by SequenceEmpty, SequenceInsert at constant positions,
// SplitToSequence into constant pieces, ...) need no memory of their own: what reads an element reads the tensor, a concatenation
// is that of the tensors, a length is a constant. Kernels need no sequences then. O(nodes + elements).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult lower_sequences(Module&, PassContext&);

}  // namespace rlxc
