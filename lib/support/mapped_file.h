// Files as read-only memory: models are never read into buffers, and weights stay on disk until something looks at them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/diagnostics.h"

namespace rlxc {

// A whole file mapped read-only. Moving keeps the address. Reading a page that another process has cut off raises SIGBUS;
// mapped_file_at tells a handler which file that was.
class MappedFile {
 public:
  MappedFile() = default;  // empty
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  const std::byte* data() const { return data_; }  // null if the file is empty
  uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Gives the pages that lie wholly within the range back to the system; they are read again from disk when touched. This keeps
  // peak memory low after a pass over large weights. Ranges beyond the end are cut off.
  void release(uint64_t offset, uint64_t length) const;

 private:
  friend std::optional<MappedFile> map_descriptor(int fd, std::string path, Code, Diagnostics&);

  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  std::string path_;
};

// The path of the mapped file that holds the address, or null. For signal handlers: neither locks nor allocates. Knows the first
// 256 files that are mapped at a time, by the first 1023 bytes of their paths.
const char* mapped_file_at(const void* address);

// A file that the user named. Only regular files (links to them too); everything else, and every failure, is
// Code::UnreadableFile.
std::optional<MappedFile> open_model_file(const std::string& path, Diagnostics&);

// A file that a model names, such as the `location` of ONNX external data. The name is hostile: only a relative path of plain
// names below `model_dir` is opened (no "..", backslash or NUL byte; '/' separates), no component may be a symbolic link, and a
// file with several hard links is refused, since it may belong to somebody else. Those are Code::UnsafePath; a file that does not
// exist or cannot be read is Code::MissingWeights. `model_dir` itself is the user's and may be a link; empty means ".".
std::optional<MappedFile> resolve_external(const std::string& model_dir, std::string_view relative_path, Diagnostics&);

}  // namespace rlxc
