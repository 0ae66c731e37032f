// Translates a module to StableHLO, node by node. XLA does its own fusion. Every size must be static.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/package_options.h"
#include "ir/lir.h"
#include "support/diagnostics.h"

namespace rlxc::stablehlo {

// Where values lie on the devices of a mesh, in the dialect sdy (Shardy): attributes of parameters and outputs, by name. XLA
// divides the program.
struct Annotations {
  std::string mesh;                                                 // <["data"=2, "model"=4]>
  std::map<std::string, std::string, std::less<>> inputs, outputs;  // #sdy.sharding<@mesh, [{"data"}, {}]>
};

bool has_translation(OpKind);  // whether the op has a translation in some form

// "module @name { func.func public @main(...) }". The parameters are the inputs, then weights and what `preparation` makes of
// weights. An input that is a state shares its buffer with an output.
struct Program {
  std::string module;
  std::string preparation;         // a module that a runner calls once; empty: all weights are used as they are stored
  std::vector<size_t> parameters;  // after the inputs: numbers of weight_nodes, then, counted on, of results of the preparation
  std::vector<size_t> prepared;    // numbers of the weights that the preparation takes
};

// Reports every unsupported node as Code::UnsupportedOnTarget. With annotations, or without options.prepare_weights, the
// parameters are all weights. O(nodes).
Program translate(const LirModule&, std::string_view name, std::span<const DType> dtypes, const CpuPackageOptions&, Diagnostics&,
                  const Annotations* = nullptr);

}  // namespace rlxc::stablehlo
