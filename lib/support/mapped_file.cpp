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
  for (Mapping& m : mappings)
    if (m.begin == begin) m.begin = nullptr;
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
  if (::fstat(fd, &info) != 0) return d.error(code, "cannot read: " + system_error_text(errno), where), std::nullopt;
  if (S_ISDIR(info.st_mode)) return d.error(code, "it is a directory", where), std::nullopt;
  if (!S_ISREG(info.st_mode)) return d.error(code, "it is not a regular file", where), std::nullopt;
  MappedFile file;
  file.path_ = std::move(path);
  if (info.st_size == 0) return file;
  const auto size = static_cast<uint64_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) return d.error(code, "cannot map: " + system_error_text(errno), where), std::nullopt;
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

std::optional<MappedFile> open_model_file(const std::string& path, Diagnostics& d) {
  const Descriptor file(path.find('\0') == path.npos ? ::open(path.c_str(), kReadFlags) : (errno = EINVAL, -1));
  if (file.get() < 0) return d.error(Code::UnreadableFile, "cannot open: " + system_error_text(errno), quote(path)), std::nullopt;
  return map_descriptor(file.get(), path, Code::UnreadableFile, d);
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
  Descriptor at(::open(base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (size_t i = 0; at.get() >= 0 && i < names.size(); ++i) {
    const std::string name(names[i]);
    const bool last = i + 1 == names.size();
    const int next = ::openat(at.get(), name.c_str(), (last ? kReadFlags : O_PATH | O_DIRECTORY | O_CLOEXEC) | O_NOFOLLOW);
    const int error = errno;
    if (next < 0 && is_link(at.get(), name))
      return unsafe(quote(name) + " is a symbolic link", "put a copy of the file in its place");
    at.reset(next);
    errno = error;
  }
  if (at.get() < 0) return d.error(Code::MissingWeights, "cannot open: " + system_error_text(errno), where), std::nullopt;
  struct stat info;
  if (::fstat(at.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink != 1)
    return unsafe("the file has several hard links", "put a copy of the file in its place");
  return map_descriptor(at.get(), base + "/" + join(names, "/"), Code::MissingWeights, d);
}

}  // namespace rlxc
