// Running a compiler or an interpreter of another language, in a folder that goes away.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace rlxc::target {

// A folder that is removed afterwards; or, with a name, that folder, made where it is missing and kept.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& kept = {});  // path() is empty where it can't be made
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& file, std::string_view content) const;
  std::string read(const std::string& file) const;

 private:
  std::string path_;
  bool temporary_ = false;
};

// Runs a command (found on PATH) with its output and errors written to the file `log`, and read back into *output. True where
// it ends with status 0.
bool run_command(const std::vector<std::string>& command, const std::string& log, std::string* output);

}  // namespace rlxc::target
