// Makes the program of a planned module.
#pragma once
#include <optional>
#include <string>

#include "codegen/package.h"

namespace rlxc::codegen {

// Lowers every node that is not in the cache. The row must be the one of the plan. Reports all unsupported nodes as
// Code::UnsupportedOnTarget and returns nullopt then.
std::optional<Package> make_package(const LirModule&, std::string name, LoweringCache&, Diagnostics&);
std::optional<Package> make_package(const LirModule&, std::string name, const CapabilityRow&, Diagnostics&);

}  // namespace rlxc::codegen
