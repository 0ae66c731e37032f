// Checks of options that need no model, before anything is read or written: names of targets, and flags that do nothing.
#pragma once
#include <span>
#include <string>

#include "ir/graph.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// Error: Code::BadFlag for each name that is no target's.
bool check_targets(std::span<const std::string> targets, Diagnostics&);

// Warns (Code::BadFlag) of flags without an effect for any of the targets.
void check_options(const CompileOptions&, std::span<const std::string> targets, Diagnostics&);

// Whether the model has a symbol, or an input, that a flag names. Error: Code::BadBinding with the nearest name.
bool knows_symbol(const Module&, const std::string& symbol, const std::string& flag, Diagnostics&);
bool knows_input(const Module&, const std::string& input, const std::string& flag, Diagnostics&);

}  // namespace rlxc
