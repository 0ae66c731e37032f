#include "commands/check_run.h"

#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <iostream>

namespace rlxc {

std::optional<bool> run_check(const std::string& command, const std::string& what, Diagnostics& d) {
  const int status = std::system(command.c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  const bool interrupted = WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT);
  if (status == -1 || code == 126 || code == 127 || interrupted) {
    d.error(Code::ToolFailed,
            "the check did not run" + (code > 0 ? " (exit code " + std::to_string(code) + ")" : "") + ": " + command, {},
            "exit codes 126 and 127 mean that the shell cannot start a command");
    return std::nullopt;
  }
  std::cerr << what << ": " << (code == 0 ? "passes" : "fails") << "\n";
  return code == 0;
}

}  // namespace rlxc
