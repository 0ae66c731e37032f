#include "runtime/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

extern char** environ;

namespace rlxc::target {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

WorkFolder::WorkFolder(const std::string& kept) {
  std::error_code error;
  if (!kept.empty()) {
    std::filesystem::create_directories(kept, error);
    if (!error) path_ = kept;
    return;
  }
  const auto parent = std::filesystem::temp_directory_path(error);
  if (!error) path_ = temporary_.emplace(parent.string(), "rlxc-").path();
}

void WorkFolder::write(const std::string& file, std::string_view content) const {
  std::ofstream(path_ + "/" + file, std::ios::binary) << content;
}

std::string WorkFolder::read(const std::string& file) const { return read_file(path_ + "/" + file); }

bool run_command(const std::vector<std::string>& command, const std::string& log, std::string* output) {
  std::vector<char*> argv;
  for (const std::string& s : command) argv.push_back(const_cast<char*>(s.c_str()));
  argv.push_back(nullptr);
  // Temporary files of the command lie beside the log: they go with the folder, even if the command is killed.
  std::string temporary = "TMPDIR=" + std::filesystem::absolute(log).parent_path().string();
  std::vector<char*> environment = {temporary.data()};
  for (char** e = environ; *e; ++e)
    if (!std::string_view(*e).starts_with("TMPDIR=")) environment.push_back(*e);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  int failed = 0, status = -1;
  std::optional<ChildProcess> running;
  {
    const SignalDelay delay;  // the child is known before a signal comes
    failed = posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environment.data());
    if (!failed) running.emplace(child);
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    *output = "can't run " + command[0];
    return false;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  *output = read_file(log);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace rlxc::target
