// `rlxc run`: executes a model on test data and compares with the expected outputs.
#pragma once
#include <ostream>

#include "commands/run_report.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// Prints one line per output: max abs error, max rel error, cosine, norm error; `report` may be null. Returns Ok, Finding, the
// exit code of the first error, or NotCompared if nothing differs but some outputs have no expected values (unless --save-outputs
// asks for outputs, and the data has none).
ExitCode run_model(const CompileOptions&, const RunRequest&, std::ostream&, Diagnostics&, RunReport* report = nullptr);

}  // namespace rlxc
