// C sources of packages as a shared library, by a C compiler of this machine.
#pragma once
#include <string>
#include <vector>

#include "backend/c/cpu_package.h"
#include "runtime/process.h"
#include "support/diagnostics.h"

namespace rlxc {

// C files that the compiler reads as one, in this order.
using Unit = std::vector<std::string>;

// Writes the files of a cpu package to FOLDER/BELOW and adds the units to compile. `below` is empty or ends with a slash. A unit
// is a file; the thread pool joins the unit of the host's file. Main programs and levels.c (the choice of kernels in portable
// packages) are no units.
void write_sources(const std::vector<TextFile>& package, const target::WorkFolder& folder, const std::string& below,
                   std::vector<Unit>* units);

// Compiles units, as many at a time as there are processors, into FOLDER/package.so and returns its path; empty after
// Code::ToolFailed with what the compiler says, also of warnings. `name`: of the package, for the message.
std::string build_library(const std::string& compiler, const std::vector<std::string>& flags, const std::vector<Unit>& units,
                          const std::string& folder, const std::string& name, Diagnostics&);

// False, with Code::MissingTool, in a build that opens no libraries.
bool check_opens_libraries(const std::string& name, Diagnostics&);

// Code::ToolFailed with the reason of library_error.
void add_load_error(const std::string& name, Diagnostics&);

}  // namespace rlxc
