#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "support/system_calls.h"
#include "support/text.h"

namespace rlxc {
namespace {

// Entry searched by mapped_file_at. `begin` is set last and cleared first.
struct Mapping {
  std::atomic<const std::byte*> begin = nullptr;
  uint64_t size = 0;
  char path[1024] = "";
};
constinit Mapping mappings[256];
std::mutex mappings_mutex;

void add_mapping(const std::byte* begin, uint64_t size, const std::string& path) {
  const std::lock_guard lock(mappings_mutex);
  for (Mapping& m : mappings) {
    if (m.begin) continue;
    m.size = size;
    m.path[path.copy(m.path, sizeof m.path - 1)] = 0;
    m.begin = begin;
    return;
  }
}

void remove_mapping(const std::byte* begin) {
  const std::lock_guard lock(mappings_mutex);
  for (Mapping& m : mappings) {
    if (m.begin != begin) continue;
    m.begin = nullptr;
    return;  // few pages of the table are ever touched
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(-1); }

  int get() const { return fd_; }
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

// O_NONBLOCK: opening a pipe must not wait for a writer. No effect on regular files.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// Reason why the text of a relative path is unsafe, or null.
const char* unsafe_text(std::string_view path, const std::vector<std::string_view>& names) {
  if (path.empty()) return "it is empty";
  if (path.find('\0') != path.npos) return "it contains a NUL byte";
  if (path.find('\\') != path.npos) return "it contains a backslash";
  if (path.front() == '/') return "it is absolute";
  for (std::string_view name : names)
    if (name == "..") return "it contains \"..\"";
  return nullptr;
}

bool is_link(int dir, const std::string& name) {
  struct stat info;
  return ::fstatat(dir, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

}  // namespace

MappedFile::MappedFile(MappedFile&& o) noexcept
    : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)), path_(std::move(o.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  std::swap(path_, o.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!data_) return;
  remove_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(uint64_t offset, uint64_t length) const {
  if (offset >= size_) return;
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t end = offset + std::min(length, size_ - offset);
  const uint64_t first = (offset + page - 1) / page * page;
  const uint64_t last = end == size_ ? end : end / page * page;
  if (first < last) ::madvise(const_cast<std::byte*>(data_ + first), last - first, MADV_DONTNEED);
}

std::optional<MappedFile> map_descriptor(int fd, std::string path, Code code, Diagnostics& d) {
  const std::string where = quote(path);
  struct stat info;
  if (::fstat(fd, &info) != 0) {
    d.error(code, "cannot read: " + system_error_text(errno), where);
    return std::nullopt;
  }
  if (S_ISDIR(info.st_mode)) {
    d.error(code, "it is a directory", where);
    return std::nullopt;
  }
  if (!S_ISREG(info.st_mode)) {
    d.error(code, "it is not a regular file", where);
    return std::nullopt;
  }
  MappedFile file;
  file.path_ = std::move(path);
  if (info.st_size == 0) return file;
  const auto size = static_cast<uint64_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) {
    d.error(code, "cannot map: " + system_error_text(errno), where);
    return std::nullopt;
  }
  file.data_ = static_cast<const std::byte*>(address);
  file.size_ = size;
  add_mapping(file.data_, size, file.path_);
  return file;
}

const char* mapped_file_at(const void* address) {
  for (const Mapping& m : mappings) {
    const std::byte* const begin = m.begin;
    if (begin && address >= begin && address < begin + m.size) return m.path;
  }
  return nullptr;
}

bool is_standard_input(const std::string& path) { return path == "-" || path == "/dev/stdin"; }

// Returns a file in memory with all of standard input, the same for every call, or -1.
static int standard_input() {
  static const int kept = [] {
    const int file = open_nameless_file("standard input");
    std::vector<char> buffer(1 << 20);
    for (ssize_t n = 1; file >= 0 && n != 0;) {
      n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      for (ssize_t done = 0; done < n;) {
        const ssize_t written = ::write(file, buffer.data() + done, static_cast<size_t>(n - done));
        if (written < 0) return -1;
        done += written;
      }
      if (n < 0) return -1;
    }
    return file;
  }();
  return kept;
}

std::optional<MappedFile> open_model_file(const std::string& path, Diagnostics& d) {
  if (is_standard_input(path)) {
    const int file = standard_input();
    if (file >= 0) return map_descriptor(file, path, Code::UnreadableFile, d);
    d.error(Code::UnreadableFile, "cannot read standard input: " + system_error_text(errno));
    return std::nullopt;
  }
  const Descriptor file(path.find('\0') == path.npos ? ::open(path.c_str(), kReadFlags) : (errno = EINVAL, -1));
  if (file.get() < 0) {
    d.error(Code::UnreadableFile, "cannot open: " + system_error_text(errno), quote(path));
    return std::nullopt;
  }
  return map_descriptor(file.get(), path, Code::UnreadableFile, d);
}

std::optional<MappedFile> map_bytes(std::string_view bytes, const std::string& path, Diagnostics& d) {
  const Descriptor file(open_nameless_file("rlxc"));
  bool written = file.get() >= 0;
  for (size_t at = 0; written && at < bytes.size();) {
    const ssize_t n = ::write(file.get(), bytes.data() + at, bytes.size() - at);
    written = n > 0 || (n < 0 && errno == EINTR);
    at += n > 0 ? static_cast<size_t>(n) : 0;
  }
  if (written) return map_descriptor(file.get(), path, Code::UnreadableFile, d);
  d.error(Code::UnreadableFile, "cannot unpack: " + system_error_text(errno), quote(path));
  return std::nullopt;
}

std::optional<MappedFile> resolve_external(const std::string& model_dir, std::string_view relative_path, Diagnostics& d) {
  const std::string where = "external data " + quote(relative_path);
  const auto unsafe = [&](const std::string& reason, const std::string& help) {
    d.error(Code::UnsafePath, "the path is refused: " + reason, where, help);
    return std::nullopt;
  };
  std::vector<std::string_view> names = split(relative_path, '/');
  if (const char* reason = unsafe_text(relative_path, names)) return unsafe(reason, "use a path below the model's folder");
  std::erase_if(names, [](std::string_view s) { return s.empty() || s == "."; });
  if (names.empty() || relative_path.back() == '/') return unsafe("it names a folder", "name a file");

  const std::string base = model_dir.empty() ? "." : model_dir;
  Descriptor at(::open(base.c_str(), folder_flags()));
  for (size_t i = 0; at.get() >= 0 && i < names.size(); ++i) {
    const std::string name(names[i]);
    const bool last = i + 1 == names.size();
    const int next = ::openat(at.get(), name.c_str(), (last ? kReadFlags : folder_flags()) | O_NOFOLLOW);
    const int error = errno;
    if (next < 0 && is_link(at.get(), name))
      return unsafe(quote(name) + " is a symbolic link", "put a copy of the file in its place");
    at.reset(next);
    errno = error;
  }
  if (at.get() < 0) {
    d.error(Code::MissingWeights, "cannot open: " + system_error_text(errno), where);
    return std::nullopt;
  }
  struct stat info;
  if (::fstat(at.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink != 1)
    return unsafe("the file has several hard links", "put a copy of the file in its place");
  return map_descriptor(at.get(), base + "/" + join(names, "/"), Code::MissingWeights, d);
}

}  // namespace rlxc
