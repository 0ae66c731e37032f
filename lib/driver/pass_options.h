// The options of the passes, from those of a compile and the files that they name.
#pragma once
#include <optional>

#include "options/options.h"
#include "passes/pass.h"
#include "support/diagnostics.h"

namespace rlxc {

// Errors: invalid precision or calibration files, unknown pass names.
std::optional<PassOptions> pass_options(const CompileOptions&, Diagnostics&);

}  // namespace rlxc
