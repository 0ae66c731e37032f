// Reproducers of compiler bugs: the input module of a failing pass and the command that shows the failure, or after a crash the
// command alone.
#pragma once
#include <string>

#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// Call after a compile failed with Code::VerifyFailed or Code::PassChangedResult in pass run number `runs` (from 1), pass `pass`.
// Compiles up to that pass again, writes the module as IR text to `reproducer-PASS.txt` in the folder `where`, and adds a note
// with file and command. Does nothing for other errors.
void write_reproducer(const CompileOptions&, const std::string& target, int64_t runs, const std::string& pass,
                      const std::string& where, Diagnostics&);

// Installs handlers of SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL that write the command line and the running pass to standard
// error and to `rlxc-crash.txt` in the working folder, and exit with code 70.
void report_crashes(int argc, const char* const* argv);

}  // namespace rlxc
