#include "support/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <utility>

#include "support/text.h"

namespace rlxc {
namespace {

std::optional<OutputFile> refuse(Diagnostics& d, const std::string& path, const std::string& reason) {
  d.error(Code::NotWritable, "cannot write: " + reason, "\"" + path + "\"");
  return std::nullopt;
}

// The end of a chain of symbolic links, or `path` itself.
std::string link_target(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (!resolved) return path;
  std::string target(resolved);
  std::free(resolved);
  return target;
}

// Temporary files of `path` whose processes are dead. Young ones may be those of another machine.
void remove_stale(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr time_t kYoung = 60;
  const fs::path folder = fs::path(path).parent_path();
  const std::string prefix = fs::path(path).filename().string() + ".tmp-";
  std::error_code error;
  for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    pid_t owner = 0;
    const auto [end_of_number, wrong] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), owner);
    if (wrong != std::errc() || end_of_number != name.data() + name.size() || owner <= 0) continue;
    struct stat info;
    if (::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode) || time(nullptr) - info.st_mtime < kYoung) continue;
    if (::kill(owner, 0) != 0 && errno == ESRCH) ::unlink(it->path().c_str());
  }
}

}  // namespace

std::optional<OutputFile> OutputFile::create(const std::string& path, Diagnostics& d, const std::string& shown) {
  const std::string& name = shown.empty() ? path : shown;
  if (path == "-") return OutputFile(path, {}, name, STDOUT_FILENO, d);
  if (path.empty() || path.find('\0') != std::string::npos) return refuse(d, name, "not a file name");
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return refuse(d, name, "it is a directory");
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return refuse(d, name, system_error_text(errno));
    return OutputFile(path, {}, name, fd, d);
  }
  std::string final_path = path;
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) final_path = link_target(path);
  remove_stale(final_path);
  auto temporary = std::make_unique<TemporaryFile>(final_path + ".tmp-" + std::to_string(::getpid()));
  ::unlink(temporary->path().c_str());  // left by an earlier process with this id
  const int fd = ::open(temporary->path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return refuse(d, name, system_error_text(errno));
  return OutputFile(std::move(final_path), std::move(temporary), name, fd, d);
}

OutputFile::OutputFile(OutputFile&& o) noexcept
    : path_(std::move(o.path_)),
      temporary_(std::move(o.temporary_)),
      shown_(std::move(o.shown_)),
      fd_(std::exchange(o.fd_, -1)),
      diagnostics_(o.diagnostics_),
      size_(o.size_),
      sha_(o.sha_),
      failed_(o.failed_) {}

OutputFile& OutputFile::operator=(OutputFile&& o) noexcept {
  if (this != &o) {
    discard();
    path_ = std::move(o.path_);
    temporary_ = std::move(o.temporary_);
    shown_ = std::move(o.shown_);
    fd_ = std::exchange(o.fd_, -1);
    diagnostics_ = o.diagnostics_;
    size_ = o.size_;
    sha_ = o.sha_;
    failed_ = o.failed_;
  }
  return *this;
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() {
  if (fd_ > STDERR_FILENO) ::close(fd_);
  fd_ = -1;
  if (temporary_) ::unlink(temporary_->path().c_str());
  temporary_.reset();
}

void OutputFile::fail(const char* what, int error) {
  if (!failed_) diagnostics_->error(Code::NotWritable, std::string(what) + ": " + system_error_text(error), "\"" + shown_ + "\"");
  failed_ = true;
}

bool OutputFile::write(std::span<const std::byte> data) {
  if (failed_ || fd_ < 0) return false;
  sha_.update(data);
  while (!data.empty()) {
    constexpr size_t kMost = size_t{1} << 30;  // Linux writes at most 2 GiB - 4 KiB per call
    const ssize_t n = ::write(fd_, data.data(), std::min(data.size(), kMost));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail("cannot write", errno), false;
    data = data.subspan(static_cast<size_t>(n));
    size_ += static_cast<size_t>(n);
  }
  return true;
}

bool OutputFile::commit(Durability durability) {
  if (fd_ < 0) return false;
  if (!failed_ && durability == Durability::Disk && temporary_ && ::fsync(fd_) != 0) fail("cannot sync", errno);
  if (fd_ > STDERR_FILENO && ::close(fd_) != 0) fail("cannot close", errno);
  fd_ = -1;
  if (!failed_ && temporary_) {
    if (::rename(temporary_->path().c_str(), path_.c_str()) == 0) temporary_.reset();
    else fail("cannot rename into place", errno);
  }
  if (failed_) discard();
  return !failed_;
}

bool write_file(const std::string& path, std::string_view content, Diagnostics& d) {
  std::optional<OutputFile> file = OutputFile::create(path, d);
  return file && file->write(content) && file->commit();
}

}  // namespace rlxc
