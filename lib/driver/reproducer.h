// What is left behind when the compiler itself is at fault: the module that the failing pass was given and the command that shows
// the fault, or, when the process dies, that command alone.
#pragma once
#include <string>

#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// After a compile that failed with Code::VerifyFailed or Code::PassChangedResult in its last pass, which was number `runs` (from
// 1) and has this name: compiles again up to that pass and writes the module as IR text, `reproducer-PASS.txt`, to the folder
// `where`. Adds a note that names file and command. Nothing when the errors are of another kind.
void write_reproducer(const CompileOptions&, const std::string& target, int64_t runs, const std::string& pass,
                      const std::string& where, Diagnostics&);

// On SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL: the command line and the pass that ran go to standard error and to the file
// `rlxc-crash.txt` in the working folder, and the process ends with exit code 70.
void report_crashes(int argc, const char* const* argv);

}  // namespace rlxc
