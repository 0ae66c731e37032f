// All passes, one per line of passes.def. The head comment of a pass's source file describes it.
#pragma once
#include "passes/pass.h"

namespace rlxc {

#define PASS(name, group, doc) PassResult name(Module&, PassContext&);
#include "passes/passes.def"
#undef PASS

const std::vector<PassInfo>& all_passes();  // in a fixed order, from passes.def
const PassInfo* find_pass(std::string_view name);

}  // namespace rlxc
