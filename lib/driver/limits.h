// Applies the limits that options set: of an evaluation, and of the whole process.
#pragma once
#include "eval/eval.h"
#include "options/options.h"

namespace rlxc {

eval::Options evaluation_limits(const CompileOptions&);

// From here on, the process ends with exit code 7 and RLX0105, which names stage and node, if it exceeds its memory (by default
// half of what is free; no limit with --sanitize) or time. The temporary folders and child processes of
// support/temporary_folder.h end with it. Call once.
void limit_process(const CommandLine&);

}  // namespace rlxc
