// Atomic file output: written to a temporary name and renamed on commit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/diagnostics.h"
#include "support/hash.h"
#include "support/temporary_folder.h"

namespace rlxc {

// Writes to `PATH.tmp-<pid>` in the folder of PATH. commit() renames it; destruction without commit() and the signals of
// support/temporary_folder.h remove it; the next file with this name removes what a killed process left. "-" is standard output;
// an existing device or pipe is written in place; a symbolic link is followed. The first failure is reported to the Diagnostics,
// which must outlive the file, and later writes do nothing. Unbuffered: write large blocks or use a JsonWriter. Errors name
// `shown`, or PATH.
class OutputFile {
 public:
  static std::optional<OutputFile> create(const std::string& path, Diagnostics&, const std::string& shown = {});

  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  ~OutputFile();

  bool write(std::span<const std::byte>);
  bool write(std::string_view s) { return write(bytes_of(s)); }

  enum class Durability { PageCache, Disk };                   // Disk: survives a power failure (fsync)
  bool commit(Durability durability = Durability::PageCache);  // false if this or an earlier call failed

  bool ok() const { return !failed_; }
  uint64_t size() const { return size_; }                // bytes written
  std::string sha256_hex() const { return sha_.hex(); }  // of the bytes written

 private:
  OutputFile(std::string path, std::unique_ptr<TemporaryFile> temporary, std::string shown, int fd, Diagnostics& d)
      : path_(std::move(path)), temporary_(std::move(temporary)), shown_(std::move(shown)), fd_(fd), diagnostics_(&d) {}
  void fail(const char* what, int error);
  void discard();

  std::string path_;
  std::unique_ptr<TemporaryFile> temporary_;  // null if written in place
  std::string shown_;
  int fd_ = -1;
  Diagnostics* diagnostics_;
  uint64_t size_ = 0;
  Sha256 sha_;
  bool failed_ = false;
};

// Creates, writes and commits.
bool write_file(const std::string& path, std::string_view content, Diagnostics&);

}  // namespace rlxc
