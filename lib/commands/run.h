// `rlxc run`: executes a model on test data and compares with the expected outputs.
#pragma once
#include <ostream>

#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// Prints one line per output: max abs error, max rel error, cosine. Returns Ok, Finding, or the exit code of the first error.
ExitCode run_model(const CompileOptions&, const RunRequest&, std::ostream&, Diagnostics&);

}  // namespace rlxc
