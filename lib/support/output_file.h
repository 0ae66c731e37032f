// A file that appears whole or not at all: written beside its final name and renamed on commit.
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

// Writes to `PATH.tmp-<pid>` in the folder of PATH; commit() renames, destruction without commit() removes, and so do the signals
// of support/temporary_folder.h. What a process left that was killed goes with the next file of that name. "-" is standard
// output, and an existing PATH that is a device or a pipe is written in place. A symbolic link is followed: its target is
// replaced. The first failure is reported to the Diagnostics (which must outlive the file) and later writes do nothing.
// Unbuffered: write large pieces, or put a JsonWriter in front. Errors name `shown`, or PATH.
class OutputFile {
 public:
  static std::optional<OutputFile> create(const std::string& path, Diagnostics&, const std::string& shown = {});

  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  ~OutputFile();

  bool write(std::span<const std::byte>);
  bool write(std::string_view s) { return write(bytes_of(s)); }

  enum class Durability { PageCache, Disk };                   // Disk: survives a power failure (fsync)
  bool commit(Durability durability = Durability::PageCache);  // false if this or anything before failed

  bool ok() const { return !failed_; }
  uint64_t size() const { return size_; }                // bytes written so far
  std::string sha256_hex() const { return sha_.hex(); }  // of them

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

// Creates, writes and commits in one step.
bool write_file(const std::string& path, std::string_view content, Diagnostics&);

}  // namespace rlxc
