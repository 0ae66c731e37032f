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
// which must outlive the file, and later writes do nothing. Unbuffered: write large blocks or use a JsonWriter. A thread of its
// own hashes and writes the blocks of a large file, so an error may come with a later call. Errors name `shown`, or PATH.
class OutputFile {
 public:
  static std::optional<OutputFile> create(const std::string& path, Diagnostics&, const std::string& shown = {});
  // A new file of a TemporaryFolder, which is removed or renamed as a whole: written in place.
  static std::optional<OutputFile> create_in_temporary(const std::string& path, Diagnostics&, const std::string& shown);

  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  ~OutputFile();

  bool write(std::span<const std::byte>);
  bool write(std::string_view s) { return write(bytes_of(s)); }

  enum class Durability { PageCache, Disk };                   // Disk: survives a power failure (fsync)
  bool commit(Durability durability = Durability::PageCache);  // false if this or an earlier call failed

  bool ok() const { return !failed_; }
  uint64_t size() const { return size_; }  // bytes accepted
  std::string sha256_hex() const;          // of the bytes accepted

 private:
  class Sink;
  OutputFile(std::string path, std::unique_ptr<TemporaryFile>, std::string shown, int fd, Diagnostics&);
  void fail(const char* what, int error);
  void discard();

  std::string path_;
  std::unique_ptr<TemporaryFile> temporary_;  // null if written in place
  std::string shown_;
  std::unique_ptr<Sink> sink_;
  Diagnostics* diagnostics_;
  uint64_t size_ = 0;
  bool closed_ = false, failed_ = false;
};

// Creates, writes and commits.
bool write_file(const std::string& path, std::string_view content, Diagnostics&);

}  // namespace rlxc
