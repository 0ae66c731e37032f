// Translates a module to StableHLO, node by node. XLA does its own fusion. Every size must be static.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::stablehlo {

bool has_translation(OpKind);  // whether the op has a translation in some form

// Returns "module @name { func.func public @main(...) }". The parameters are the inputs, then the weights (Param and Constant
// nodes of all graphs, in order). Reports every unsupported node as Code::UnsupportedOnTarget. O(nodes).
std::string translate(const Module&, std::string_view name, std::span<const DType> dtypes, Diagnostics&);

}  // namespace rlxc::stablehlo
