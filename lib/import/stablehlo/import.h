// Imports StableHLO in MLIR's text form, generic or pretty, as JAX and the tpu target print it. Functions that @main calls, at
// any depth, become a part of it. Reports all errors in one run, with line and column. O(bytes + nodes), where operations of a
// function count for every call.
#pragma once
#include <memory>
#include <string_view>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::stablehlo_import {

struct ImportOptions {
  size_t max_nodes = 10'000'000;  // operations; those of a function count for every call
};

// Whether the text, from its start on, is a module of MLIR and not the text form of the IR.
bool looks_like_mlir(std::string_view head);

// Returns null on errors. Copies what it keeps of the text.
std::unique_ptr<Module> import_stablehlo(std::string_view text, const ImportOptions&, Diagnostics&);

}  // namespace rlxc::stablehlo_import
