// GroupNorm as exporters without that operator write it: groups as channels of an instance norm, then scale and shift a channel.
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult recognise_group_norm(Module&, PassContext&);

}  // namespace rlxc
