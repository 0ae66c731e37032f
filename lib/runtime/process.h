// Runs a compiler or interpreter in a work folder.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/diagnostics.h"
#include "support/temporary_folder.h"

namespace rlxc::target {

// A temporary folder, removed by the destructor; or, given a name, a permanent one, created if it is missing.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& kept = {});  // path() is empty on failure
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& file, std::string_view content) const;
  std::string read(const std::string& file) const;

 private:
  std::optional<TemporaryFolder> temporary_;
  std::string path_;
};

// Reports that a command failed with this output: as a missing tool, with what to install, where the output tells that the
// program or a module of Python or JavaScript is not there.
void add_tool_error(const std::string& command, std::string_view output, const std::string& place, Diagnostics&);

// Runs a command (found on PATH) in a process group that ends with this process. Its output and errors go to the file `log` and
// to *output, its temporary files into the folder of `log`. Returns whether it exits with status 0.
bool run_command(const std::vector<std::string>& command, const std::string& log, std::string* output);

}  // namespace rlxc::target
