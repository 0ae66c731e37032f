#include "runtime/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

constexpr size_t kMostOutput = 8000;
constexpr std::string_view kCannotRun = "can't run ";

// Texts in the output of a command that mean a missing tool, and what to install. Hosts of packages print the latter themselves.
struct MissingTool {
  std::string_view sign, help;
};
constexpr MissingTool kMissing[] = {
    {"can't run node", "install Node.js 18 or later"},
    {"can't run python3", "install Python 3"},
    {"can't run mpi", "install Open MPI or MPICH with its compilers"},
    {"can't run make", "install make"},
    {kCannotRun, "install gcc or clang, name another compiler by CC, or --engine interpreter, which needs none"},
    {"No module named 'numpy'", "pip install numpy"},
    {"No module named 'onnxruntime'", "pip install onnxruntime numpy"},
    {"'mpirun': No such file", "install Open MPI or MPICH"},
    {" is missing: pip install", ""},
    {" is missing: npm install", ""},
};

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

void add_tool_error(const std::string& command, std::string_view output, const std::string& place, Diagnostics& d) {
  while (output.ends_with('\n')) output.remove_suffix(1);
  const auto missing =
      std::ranges::find_if(kMissing, [&](const MissingTool& m) { return output.find(m.sign) != std::string_view::npos; });
  const std::string text = (command.empty() ? "" : command + ": ") + std::string(output.substr(0, kMostOutput));
  if (missing != std::end(kMissing)) d.error(Code::MissingTool, text, place, std::string(missing->help));
  else d.error(Code::ToolFailed, text, place);
}

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
    *output = std::string(kCannotRun) + command[0];
    return false;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  *output = read_file(log);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace rlxc::target
