#include "support/temporary_folder.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "support/diagnostics.h"
#include "support/system_calls.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

struct Registry {
  std::recursive_mutex mutex;
  std::map<std::string, int> paths;  // of folders and files, with the descriptors that lock folders
  std::set<pid_t> groups;
};
Registry& registry() {
  static Registry& all = *new Registry;  // never destroyed: the signal thread may outlive static objects
  return all;
}

int signal_pipe[2] = {-1, -1};

// Message to the cleaning thread: a signal number to end by, or kExit plus an exit code.
constexpr int kExit = 128;

void on_signal(int number) {
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe[1], &byte, 1);
}

// The reader of standard output or error is gone.
void on_broken_pipe(int) {
  on_signal(kExit + static_cast<int>(ExitCode::Unwritable));
  // The cleaning thread ends the process, unless the signal interrupted a thread that holds the registry lock: that goes on.
  struct timespec moment = {0, 500'000'000};
  nanosleep(&moment, nullptr);
}

int remove_entry(const char* path, const struct stat*, int, FTW*) { return std::remove(path) == 0 || errno == ENOENT ? 0 : 1; }

// Gives compilers time to remove their temporary files on SIGTERM before SIGKILL.
void end_children(const std::set<pid_t>& groups) {
  for (pid_t g : groups) kill(-g, SIGTERM);
  for (int i = 0; i < 50; ++i) {
    if (std::ranges::none_of(groups, [](pid_t g) { return kill(-g, 0) == 0; })) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (pid_t g : groups) kill(-g, SIGKILL);
}

// The caller holds the registry lock and never releases it, so nothing can register any more.
void clean_up() {
  end_children(registry().groups);
  for (const auto& [path, lock] : registry().paths) {
    if (lock >= 0) close(lock);  // leaves a descriptor to remove the folder with
    remove_path(path);
  }
}

void wait_for_signal() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // a handler that waits for this thread must not run on it
  unsigned char number = 0;
  if (read(signal_pipe[0], &number, 1) != 1) return;
  const std::lock_guard lock(registry().mutex);
  clean_up();
  if (number >= kExit) _exit(number - kExit);
  signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &all, nullptr);
  kill(getpid(), number);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  _exit(128 + number);
}

struct flock whole_folder(int type) {
  struct flock lock = {};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  return lock;
}

// Not by flock, by which commits lock the folder around theirs (support/output_folder.h).
bool is_locked(int fd) {
  struct flock owner = whole_folder(F_WRLCK);
  return fcntl(fd, F_OFD_GETLK, &owner) != 0 || owner.l_type != F_UNLCK;
}

bool is_same_folder(int fd, const std::string& path) {
  struct stat opened, there;
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &there) == 0 && opened.st_dev == there.st_dev &&
         opened.st_ino == there.st_ino;
}

// Removes folders whose owner, which holds a lock, is gone.
void remove_stale(const std::string& parent, std::string_view prefix) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool left = name.starts_with(std::string(prefix) + "gone-");  // by a process that was killed as it removed the folder
    if (!name.starts_with(prefix) || (name.size() != prefix.size() + 6 && !left)) continue;
    struct stat info;
    if (lstat(it->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
    const int fd = open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    // An owner that has not locked its folder yet makes another one when it finds the folder gone.
    const std::string path = it->path().string(), gone = path.substr(0, path.size() - 6) + "gone-" + path.substr(path.size() - 6);
    if (!is_locked(fd) && rename(path.c_str(), gone.c_str()) == 0) {
      if (!is_locked(fd)) remove_path(gone);
      else rename(gone.c_str(), path.c_str());
    }
    close(fd);
  }
}

}  // namespace

void remove_path(const std::string& path) {
  constexpr int kTries = 10;  // another thread may create files meanwhile
  struct stat info;
  for (int i = 0; i < kTries && lstat(path.c_str(), &info) == 0; ++i) nftw(path.c_str(), remove_entry, 1, FTW_DEPTH | FTW_PHYS);
}

TemporaryFolder::TemporaryFolder(const std::string& parent, std::string_view prefix) {
  remove_stale(parent, prefix);
  const std::string pattern = (fs::path(parent) / (std::string(prefix) + "XXXXXX")).string();
  const std::lock_guard lock(registry().mutex);
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && path_.empty(); ++i) {
    std::string path = pattern;
    if (!mkdtemp(path.data())) return;
    lock_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0 && errno != ENOENT) {
      const int reason = errno;
      rmdir(path.c_str());
      errno = reason;
      return;
    }
    if (lock_ < 0) continue;
    struct flock owner = whole_folder(F_RDLCK);
    fcntl(lock_, F_OFD_SETLK, &owner);
    if (is_same_folder(lock_, path)) {
      path_ = std::move(path);
    } else {  // taken for one without an owner
      close(lock_);
      lock_ = -1;
    }
  }
  if (!path_.empty()) registry().paths.emplace(path_, lock_);
}

TemporaryFolder::~TemporaryFolder() {
  const std::lock_guard lock(registry().mutex);
  const std::string path = path_;
  release();  // the descriptor of the lock removes the folder
  if (!path.empty()) remove_path(path);
}

void TemporaryFolder::release() {
  const std::lock_guard lock(registry().mutex);
  registry().paths.erase(path_);
  path_.clear();
  if (lock_ >= 0) close(lock_);
  lock_ = -1;
}

TemporaryFile::TemporaryFile(const std::string& path) : path_(path) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.emplace(path_, -1);
}

TemporaryFile::~TemporaryFile() {
  const std::lock_guard lock(registry().mutex);
  registry().paths.erase(path_);
}

ChildProcess::ChildProcess(pid_t group) : group_(group) {
  const std::lock_guard lock(registry().mutex);
  registry().groups.insert(group_);
}

ChildProcess::~ChildProcess() {
  const std::lock_guard lock(registry().mutex);
  registry().groups.erase(group_);
}

void clean_up_on_signals() {
  if (!open_pipe(signal_pipe)) return;
  std::thread(wait_for_signal).detach();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action.sa_handler = number == SIGPIPE ? on_broken_pipe : on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
  signal(SIGXFSZ, SIG_IGN);
}

void end_from_signal(int exit_code) {
  on_signal(kExit + exit_code);
  // The cleaning thread ends the process, unless the signal interrupted a thread that holds the registry lock.
  struct timespec moment = {2, 0};
  nanosleep(&moment, nullptr);
  _exit(exit_code);
}

void end_process(int exit_code) {
  const std::lock_guard lock(registry().mutex);
  clean_up();
  _exit(exit_code);
}

SignalDelay::SignalDelay() { registry().mutex.lock(); }
SignalDelay::~SignalDelay() { registry().mutex.unlock(); }

}  // namespace rlxc
