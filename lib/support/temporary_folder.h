// Folders, files and child processes that end with this process: at the end of their scope and on SIGINT, SIGTERM, SIGHUP,
// SIGQUIT and SIGPIPE. After SIGKILL, the next process that creates a folder with the same prefix removes the rest.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>

namespace rlxc {

class TemporaryFolder {
 public:
  // Creates PARENT/PREFIXxxxxxx with mode 0700. On failure path() is empty and errno is set.
  TemporaryFolder(const std::string& parent, std::string_view prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Stops owning the folder, which has been renamed.
  void release();

 private:
  std::string path_;
  int lock_ = -1;  // held during the owner's lifetime: a folder that is not locked has no owner
};

// A file that is about to be created. It is removed with this process unless it is renamed before. Keep it in scope until then.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A child in a process group of its own that is killed with this process. Keep it in scope until the child has been waited for.
class ChildProcess {
 public:
  explicit ChildProcess(pid_t group);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

 private:
  pid_t group_;
};

// Call once at the start. Ignored signals stay ignored. The process then ends by the signal itself; on SIGPIPE, quietly with the
// code of output that cannot be written. SIGXFSZ is ignored: a write that exceeds the limit on file sizes fails.
void clean_up_on_signals();

// Cleans up the same way and exits with this code. For signal handlers; does not return.
[[noreturn]] void end_from_signal(int exit_code);

// The same, from a thread.
[[noreturn]] void end_process(int exit_code);

// Removes a file, or a folder with all that is in it. Needs one file descriptor, whatever the depth.
void remove_path(const std::string& path);

// Blocks signals during its lifetime, for steps that must not be interrupted.
class SignalDelay {
 public:
  SignalDelay();
  ~SignalDelay();
};

}  // namespace rlxc
