// Evaluates nodes whose operands are all constants with the reference evaluator, so that folding means what running means.
// Parameters are not constants: what depends on weights stays, and runs once at load time. A result of more than
// options.fold_max_bytes is not folded (unless it is one element repeated, which costs nothing to keep), nor is work on operands
// much larger than that. A size that the data of constants tell (of an image file, of the elements that are not zero) takes the
// place of its symbol everywhere. Linear in nodes and in the work that is done.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult constant_folding(Module&, PassContext&);

}  // namespace rlxc
