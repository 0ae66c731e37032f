// Memory-mapped files: models are not read into buffers, and weights stay on disk until accessed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/diagnostics.h"

namespace rlxc {

// A whole file mapped read-only. Moving keeps the address. Accessing a page that another process has truncated raises SIGBUS;
// mapped_file_at returns the file to a handler.
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

  // Returns pages entirely in the range to the system; they are read again when accessed. Lowers peak memory after a pass over
  // large weights. Clips the range to the file.
  void release(uint64_t offset, uint64_t length) const;

 private:
  friend std::optional<MappedFile> map_descriptor(int fd, std::string path, Code, Diagnostics&);

  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  std::string path_;
};

// The path of the mapped file at the address, or null. Async-signal-safe: no locks, no allocation. Knows the first 256 concurrent
// mappings and the first 1023 bytes of their paths.
const char* mapped_file_at(const void* address);

bool is_standard_input(const std::string& path);  // "-" or "/dev/stdin"
// Maps a file named by the user; "-" and "/dev/stdin" are all of standard input, as often as it is opened. Accepts regular files
// and links to them; any other failure is Code::UnreadableFile.
std::optional<MappedFile> open_model_file(const std::string& path, Diagnostics&);
// Maps a copy of these bytes, an unpacked model, under the path of the file that they came from.
std::optional<MappedFile> map_bytes(std::string_view bytes, const std::string& path, Diagnostics&);

// Maps a file named by a model, such as the `location` of ONNX external data. The name is untrusted: it must be a relative path
// below `model_dir` ('/' separates; no "..", backslash or NUL byte) without symbolic links, and the file must not have several
// hard links (Code::UnsafePath). Missing or unreadable files are Code::MissingWeights. `model_dir` may be a link; empty means
// ".".
std::optional<MappedFile> resolve_external(const std::string& model_dir, std::string_view relative_path, Diagnostics&);

}  // namespace rlxc
