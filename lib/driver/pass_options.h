// The options of the passes, from those of a compile and the files that they name.
#pragma once
#include <optional>

#include "backend/backend.h"
#include "options/options.h"
#include "passes/pass.h"
#include "support/diagnostics.h"

namespace rlxc {

// Errors: invalid precision or calibration files, unknown pass names.
std::optional<PassOptions> pass_options(const CompileOptions&, Diagnostics&);

// Those of a target: automixed is bf16 where matrix units multiply bf16 and no f16.
PassOptions for_target(PassOptions, const TargetInfo&);

}  // namespace rlxc
