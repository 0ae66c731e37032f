#include "runtime/build_library.h"

#include "runtime/process.h"

namespace rlxc {

std::string build_library(const std::string& compiler, const std::vector<std::string>& flags,
                          const std::vector<std::string>& sources, const std::string& folder, const std::string& name,
                          Diagnostics& d) {
  constexpr size_t kMostText = 8000;
  const std::string library = folder + "/package.so";
  std::vector<std::string> command = {compiler, "-std=gnu11", "-fwrapv",  "-fno-strict-aliasing",
                                      "-fPIC",  "-shared",    "-pthread", "-Wno-psabi"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), sources.begin(), sources.end());
  command.insert(command.end(), {"-lm", "-o", library});
  std::string output;
  if (target::run_command(command, folder + "/log", &output) && output.empty()) return library;
  d.error(Code::ToolFailed, compiler + ": " + output.substr(0, kMostText), "package " + name);
  return {};
}

void add_load_error(const std::string& name, Diagnostics& d) {
  const char* reason = dlerror();
  d.error(Code::ToolFailed, reason ? reason : "the library lacks a function of its API", "package " + name);
}

}  // namespace rlxc
