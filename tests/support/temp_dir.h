// A folder of its own for one test, removed at the end of it.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace rlxc::test {

class TempDir {
 public:
  TempDir() : path_((std::filesystem::temp_directory_path() / "rlxc-test-XXXXXX").string()) {
    if (!::mkdtemp(path_.data())) path_.clear();
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace rlxc::test
