// Raises exp(x-max)/sum(exp(x-max)) along one axis to Softmax.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_softmax(Module&, PassContext&);

}  // namespace rlxc
