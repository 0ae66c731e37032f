// What one kernel of an attention block (projections, attention, projection) and of a whole transformer layer would take: no
// target has such a kernel, and the report says for each Attention why that is no loss, or what it loses (Decisions
// "attention_block" and "transformer_layer", never made). Only the lanes of one group can wait for each other, so the parts of
// one kernel share the work of a batch element among one unit, where separate launches use all of them; what it saves are
// launches and the values between them. Reason "cost": it would take longer; "no_kernel": it would not. Both times are the
// detail. O(nodes).
#pragma once
#include "passes/pass.h"

namespace rlxc {

PassResult weigh_attention_block(Module&, PassContext&);

}  // namespace rlxc
