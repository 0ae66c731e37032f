// C sources of packages as a shared library, by a C compiler of this machine.
#pragma once
#include <dlfcn.h>

#include <string>
#include <vector>

#include "support/diagnostics.h"

namespace rlxc {

// Compiles the files into FOLDER/package.so and returns its path; empty after Code::ToolFailed with what the compiler says, also
// of warnings. `name`: of the package, for the message.
std::string build_library(const std::string& compiler, const std::vector<std::string>& flags,
                          const std::vector<std::string>& sources, const std::string& folder, const std::string& name,
                          Diagnostics&);

// A function or variable of a loaded library. False if it has none of this name.
template <class F>
bool find_symbol(void* library, const std::string& name, F* f) {
  *f = reinterpret_cast<F>(dlsym(library, name.c_str()));
  return *f != nullptr;
}

// Code::ToolFailed with what dlopen or dlsym said last.
void add_load_error(const std::string& name, Diagnostics&);

}  // namespace rlxc
