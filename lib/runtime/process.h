// Running a compiler or an interpreter of another language, in a folder that goes away.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/temporary_folder.h"

namespace rlxc::target {

// A folder that is removed afterwards; or, with a name, that folder, made where it is missing and kept.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& kept = {});  // path() is empty where it can't be made
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& file, std::string_view content) const;
  std::string read(const std::string& file) const;

 private:
  std::optional<TemporaryFolder> temporary_;
  std::string path_;
};

// Runs a command (found on PATH), in a process group that ends with this process, with its output and errors written to the file
// `log`, and read back into *output. True where it ends with status 0.
bool run_command(const std::vector<std::string>& command, const std::string& log, std::string* output);

}  // namespace rlxc::target
