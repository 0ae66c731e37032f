// Translates a module to StableHLO, node by node. XLA does its own fusion. Every size must be static.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::stablehlo {

// Where values lie on the devices of a mesh, in the dialect sdy (Shardy): attributes of parameters and outputs, by name. XLA
// divides the program.
struct Annotations {
  std::string mesh;                                                 // <["data"=2, "model"=4]>
  std::map<std::string, std::string, std::less<>> inputs, outputs;  // #sdy.sharding<@mesh, [{"data"}, {}]>
};

bool has_translation(OpKind);  // whether the op has a translation in some form

// Returns "module @name { func.func public @main(...) }". The parameters are the inputs, then the weights (Param and Constant
// nodes of all graphs, in order). Reports every unsupported node as Code::UnsupportedOnTarget. O(nodes).
std::string translate(const Module&, std::string_view name, std::span<const DType> dtypes, Diagnostics&,
                      const Annotations* = nullptr);

}  // namespace rlxc::stablehlo
