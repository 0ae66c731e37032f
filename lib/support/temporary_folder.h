// Folders, files and child processes that end with this process: when they go out of scope, and on SIGINT, SIGTERM and SIGHUP.
// After SIGKILL, the next process that makes a folder with the same prefix removes what is left.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>

namespace rlxc {

class TemporaryFolder {
 public:
  // Makes PARENT/PREFIXxxxxxx with mode 0700. path() is empty where that fails; errno says why.
  TemporaryFolder(const std::string& parent, std::string_view prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Keeps the folder, which has another name now.
  void release();

 private:
  std::string path_;
  int lock_ = -1;  // held while the owner lives
};

// A file that is about to be made, and goes with this process unless it is renamed before. In scope until then.
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

// A child in a process group of its own that is ended with this process. In scope until the child has been waited for.
class ChildProcess {
 public:
  explicit ChildProcess(pid_t group);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

 private:
  pid_t group_;
};

// Call once, at the start. Signals that the process ignores stay ignored. The process then ends by the signal itself.
void clean_up_on_signals();

// Removes and ends the same, then ends the process with this exit code. For signal handlers; does not return.
[[noreturn]] void end_from_signal(int exit_code);

// The same, from a thread.
[[noreturn]] void end_process(int exit_code);

// Signals wait while one is in scope, for steps that must not be left half done.
class SignalDelay {
 public:
  SignalDelay();
  ~SignalDelay();
};

}  // namespace rlxc
