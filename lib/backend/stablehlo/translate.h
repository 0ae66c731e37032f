// StableHLO from a module. XLA fuses, so nodes are translated one by one. Every size must be known.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::stablehlo {

bool has_translation(OpKind);  // of some of its forms

// "module @name { func.func public @main(...) }": the parameters are the inputs and then the weights (the Param and Constant
// nodes of all graphs, in order). Errors (all of them, with the node): Code::UnsupportedOnTarget. O(nodes).
std::string translate(const Module&, std::string_view name, std::span<const DType> dtypes, Diagnostics&);

}  // namespace rlxc::stablehlo
