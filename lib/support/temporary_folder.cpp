#include "support/temporary_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

namespace rlxc {
namespace {

namespace fs = std::filesystem;

struct Registry {
  std::recursive_mutex mutex;
  std::set<std::string> paths;  // of folders and files
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

// Retries if another thread creates files meanwhile.
void remove_path(const std::string& path) {
  for (int i = 0; i < 10; ++i) {
    std::error_code error;
    fs::remove_all(path, error);
    if (!error) return;
  }
}

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
  for (const std::string& path : registry().paths) remove_path(path);
}

void wait_for_signal() {
  unsigned char number = 0;
  if (read(signal_pipe[0], &number, 1) != 1) return;
  const std::lock_guard lock(registry().mutex);
  clean_up();
  if (number >= kExit) _exit(number - kExit);
  signal(number, SIG_DFL);
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

// Removes folders whose owner, which holds a lock, is gone. Skips young folders, whose owner may not hold the lock yet.
void remove_stale(const std::string& parent, std::string_view prefix) {
  constexpr time_t kYoung = 60;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6) continue;
    struct stat info;
    if (lstat(it->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
    if (time(nullptr) - info.st_mtime < kYoung) continue;
    const int fd = open(it->path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    struct flock owner = whole_folder(F_WRLCK);
    if (fcntl(fd, F_OFD_GETLK, &owner) == 0 && owner.l_type == F_UNLCK) remove_path(it->path().string());
    close(fd);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& parent, std::string_view prefix) {
  remove_stale(parent, prefix);
  std::string path = (fs::path(parent) / (std::string(prefix) + "XXXXXX")).string();
  const std::lock_guard lock(registry().mutex);
  if (!mkdtemp(path.data())) return;
  lock_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct flock owner = whole_folder(F_RDLCK);
  if (lock_ >= 0) fcntl(lock_, F_OFD_SETLK, &owner);
  path_ = std::move(path);
  registry().paths.insert(path_);
}

TemporaryFolder::~TemporaryFolder() {
  const std::lock_guard lock(registry().mutex);
  if (!path_.empty()) remove_path(path_);
  release();
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
  registry().paths.insert(path_);
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
  if (pipe2(signal_pipe, O_CLOEXEC) != 0) return;
  std::thread(wait_for_signal).detach();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
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
