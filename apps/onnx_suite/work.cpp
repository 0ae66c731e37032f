#include "work.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <sstream>

#include "commands/run.h"

namespace rlxc::suite {
namespace {

constexpr size_t kMaxMessage = 2000;  // fits into a pipe with the outcome

std::string one_line(std::string s) {
  std::replace(s.begin(), s.end(), '\n', ' ');
  return s;
}

Verdict refused(const Diagnostics& d) {
  const ExitCode e = d.exit();
  std::string message;
  for (const Diagnostic& i : d.items())
    if (i.severity == Severity::Error && message.empty()) message = (i.where.empty() ? "" : i.where + ": ") + i.message;
  return {e == ExitCode::Unsupported || e == ExitCode::Limit ? Outcome::Skipped : Outcome::Failed, one_line(message)};
}

Verdict run_case(const Case& c, const Settings& s) {
  std::error_code error;
  if (!std::filesystem::exists(c.folder / "test_data_set_0", error)) return {Outcome::Skipped, "has no data"};
  CompileOptions o;
  o.input = (c.folder / "model.onnx").string();
  o.need_weights = true;
  o.verify_each = s.verify_each;
  RunRequest run = s.run;
  run.data = c.folder.string();
  Diagnostics d;
  std::ostringstream log;
  if (run_model(o, run, log, d) == ExitCode::Ok) {
    for (const Diagnostic& i : d.items())
      if (i.code == Code::PassChangedResult) return {Outcome::Skipped, one_line(i.message)};  // nothing was compared
    return {};
  }
  if (!d.ok()) return refused(d);
  std::istringstream lines(log.str());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  FAIL")) return {Outcome::Failed, line.substr(8)};
  return {Outcome::Failed, one_line(log.str())};
}

struct Child {
  size_t index = 0;
  int from = -1;  // read end of its verdict's pipe
};

std::pair<pid_t, Child> start(const std::vector<Case>& cases, size_t index, const Settings& s) {
  int ends[2];
  if (pipe(ends) != 0) return {-1, {}};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(s.seconds);
    const Verdict v = run_case(cases[index], s);
    const std::string text = static_cast<char>('0' + static_cast<int>(v.outcome)) + v.message.substr(0, kMaxMessage);
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  return {child, {index, ends[0]}};
}

Verdict verdict_of(int from, int status, const Settings& s) {
  std::string text(kMaxMessage + 1, 0);
  const ssize_t n = read(from, text.data(), text.size());
  close(from);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return {Outcome::Failed, "took more than " + std::to_string(s.seconds) + " s"};
  if (WIFSIGNALED(status)) return {Outcome::Failed, std::string("crashed: ") + strsignal(WTERMSIG(status))};
  if (n <= 0) return {Outcome::Failed, "ended without an answer"};
  return {static_cast<Outcome>(text[0] - '0'), text.substr(1, static_cast<size_t>(n) - 1)};
}

}  // namespace

void run_cases(const std::vector<Case>& cases, const Settings& s,
               const std::function<void(const Case&, const Verdict&)>& report) {
  std::vector<std::optional<Verdict>> verdicts(cases.size());
  std::map<pid_t, Child> running;
  size_t next = 0, reported = 0;
  while (reported < cases.size()) {
    for (; running.size() < s.jobs && next < cases.size(); ++next) {
      const auto [pid, child] = start(cases, next, s);
      if (pid > 0) running[pid] = child;
      else verdicts[next] = Verdict{Outcome::Failed, std::string("no process: ") + std::strerror(errno)};
    }
    int status = 0;
    const pid_t pid = running.empty() ? -1 : waitpid(-1, &status, 0);
    if (const auto it = running.find(pid); it != running.end()) {
      verdicts[it->second.index] = verdict_of(it->second.from, status, s);
      running.erase(it);
    }
    for (; reported < cases.size() && verdicts[reported]; ++reported) report(cases[reported], *verdicts[reported]);
  }
}

}  // namespace rlxc::suite
