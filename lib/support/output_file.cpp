#include "support/output_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <semaphore>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/text.h"

namespace rlxc {
namespace {

constexpr std::string_view kTemporary = ".tmp-";  // and the process that writes it

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

// Names of a folder that temporary files may have, as they were when the process first wrote there: to list a folder for each of
// thousands of files would take time in the square of them.
std::vector<std::string> temporaries(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  static std::mutex mutex;
  static std::map<std::string, std::vector<std::string>> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(folder.string());
  std::error_code error;
  if (is_new)
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (std::string name = it->path().filename().string(); name.find(kTemporary) != name.npos)
        at->second.push_back(std::move(name));
  return at->second;
}

// Temporary files of `path` whose processes are dead. Young ones may be those of another machine.
void remove_stale(const std::filesystem::path& path) {
  constexpr time_t kYoung = 60;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string prefix = path.filename().string() + std::string(kTemporary);
  for (const std::string& name : temporaries(folder)) {
    if (!name.starts_with(prefix)) continue;
    pid_t owner = 0;
    const auto [end_of_number, wrong] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), owner);
    if (wrong != std::errc() || end_of_number != name.data() + name.size() || owner <= 0) continue;
    const std::string file = folder / name;
    struct stat info;
    if (::lstat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || time(nullptr) - info.st_mtime < kYoung) continue;
    if (::kill(owner, 0) != 0 && errno == ESRCH) ::unlink(file.c_str());
  }
}

}  // namespace

// A file descriptor, and the hash of what was written to it.
class OutputFile::Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  ~Sink() {
    close();
    if (!thread_.joinable()) return;
    push({});
    thread_.join();
  }

  // `is_large`: whether a thread shall write, which takes copies of small blocks.
  void write(std::span<const std::byte> data, bool is_large) {
    if (is_large && !thread_.joinable()) start();
    if (thread_.joinable() && !data.empty() && data.size() <= kLargestCopy) return push(data);
    drain();
    put(data);
  }
  void drain() const {
    if (!thread_.joinable()) return;
    for (size_t i = 0; i < kBlocks; ++i) free_.acquire();
    free_.release(kBlocks);
  }
  int error() const { return error_; }  // of the first failure, or 0
  std::string sha256_hex() const { return sha_.hex(); }
  int sync() { return ::fsync(fd_) == 0 ? 0 : errno; }
  int close() {
    drain();
    const int fd = std::exchange(fd_, -1);
    return fd <= STDERR_FILENO || ::close(fd) == 0 ? 0 : errno;
  }

 private:
  static constexpr size_t kBlocks = 8, kLargestCopy = size_t{1} << 18;

  void start() {
    try {
      thread_ = std::thread([this] {
        for (size_t i = 0;; ++i) {
          full_.acquire();
          const std::vector<std::byte>& block = blocks_[i % kBlocks];
          if (block.empty()) return;
          put(block);
          free_.release();
        }
      });
    } catch (const std::system_error&) {  // the caller's thread writes
    }
  }
  void push(std::span<const std::byte> data) {
    free_.acquire();
    blocks_[next_++ % kBlocks].assign(data.begin(), data.end());
    full_.release();
  }
  void put(std::span<const std::byte> data) {
    sha_.update(data);
    while (!data.empty() && error_ == 0) {
      constexpr size_t kMost = size_t{1} << 30;  // Linux writes at most 2 GiB - 4 KiB per call
      const ssize_t n = ::write(fd_, data.data(), std::min(data.size(), kMost));
      if (n < 0 && errno != EINTR) error_ = errno;
      if (n > 0) data = data.subspan(static_cast<size_t>(n));
    }
  }

  int fd_;
  Sha256 sha_;
  std::atomic<int> error_ = 0;
  std::array<std::vector<std::byte>, kBlocks> blocks_;  // a ring; an empty block ends the thread
  size_t next_ = 0;
  mutable std::counting_semaphore<kBlocks> free_{kBlocks};
  std::counting_semaphore<kBlocks> full_{0};
  std::thread thread_;
};

OutputFile::OutputFile(std::string path, std::unique_ptr<TemporaryFile> temporary, std::string shown, int fd, Diagnostics& d)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      shown_(std::move(shown)),
      sink_(std::make_unique<Sink>(fd)),
      diagnostics_(&d) {}

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
  const SignalDelay until_it_exists;  // what is removed on a signal must not be created after that
  auto temporary = std::make_unique<TemporaryFile>(final_path + std::string(kTemporary) + std::to_string(::getpid()));
  ::unlink(temporary->path().c_str());  // left by an earlier process with this id
  const int fd = ::open(temporary->path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return refuse(d, name, system_error_text(errno));
  return OutputFile(std::move(final_path), std::move(temporary), name, fd, d);
}

std::optional<OutputFile> OutputFile::create_in_temporary(const std::string& path, Diagnostics& d, const std::string& shown) {
  const SignalDelay until_it_exists;  // on a signal, the folder is removed
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return refuse(d, shown, system_error_text(errno));
  return OutputFile(path, {}, shown, fd, d);
}

OutputFile::OutputFile(OutputFile&&) noexcept = default;

OutputFile& OutputFile::operator=(OutputFile&& o) noexcept {
  if (this == &o) return *this;
  discard();
  path_ = std::move(o.path_);
  temporary_ = std::move(o.temporary_);
  shown_ = std::move(o.shown_);
  sink_ = std::move(o.sink_);
  diagnostics_ = o.diagnostics_;
  size_ = o.size_;
  closed_ = o.closed_;
  failed_ = o.failed_;
  return *this;
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() {
  if (sink_) sink_->close();
  if (temporary_) ::unlink(temporary_->path().c_str());
  temporary_.reset();
}

void OutputFile::fail(const char* what, int error) {
  if (error == 0) return;
  if (!failed_) diagnostics_->error(Code::NotWritable, std::string(what) + ": " + system_error_text(error), "\"" + shown_ + "\"");
  failed_ = true;
}

bool OutputFile::write(std::span<const std::byte> data) {
  constexpr uint64_t kLarge = uint64_t{1} << 20;
  if (failed_ || closed_) return false;
  sink_->write(data, size_ >= kLarge);
  size_ += data.size();
  fail("cannot write", sink_->error());
  return !failed_;
}

std::string OutputFile::sha256_hex() const {
  sink_->drain();
  return sink_->sha256_hex();
}

bool OutputFile::commit(Durability durability) {
  if (closed_) return false;
  closed_ = true;
  sink_->drain();
  fail("cannot write", sink_->error());
  if (!failed_ && durability == Durability::Disk && temporary_) fail("cannot sync", sink_->sync());
  fail("cannot close", sink_->close());
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
