#include "driver/reproducer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "backend/target_traits.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/pass_options.h"
#include "ir/text.h"
#include "passes/passes.h"
#include "support/mapped_file.h"
#include "support/output_file.h"
#include "support/progress.h"
#include "support/system_calls.h"
#include "support/temporary_folder.h"

namespace rlxc {
namespace {

constexpr uintmax_t kWholeModel = 64 << 20;  // larger models are written without weight values

// Data of the signal handler: prepared in advance, never allocated.
char crash_command[4096] = "rlxc";

void put(char* to, size_t room, std::string_view text) {
  const size_t n = std::min(room - 1, text.size());
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

void say(int fd, const char* text) { [[maybe_unused]] const auto written = write(fd, text, std::strlen(text)); }

// The first thread that crashes reports it; others, which may read the same file, wait for the end of the process.
void on_crash(int number, siginfo_t* info, void*) {
  static std::atomic<uint64_t> reporter = 0;
  uint64_t first = 0;
  if (!reporter.compare_exchange_strong(first, thread_number())) {
    if (first == thread_number()) _exit(static_cast<int>(ExitCode::Internal));  // it crashed again
    for (;;) pause();
  }
  if (const char* file = number == SIGBUS ? mapped_file_at(info->si_addr) : nullptr) {
    for (const char* text : {file, ": error[RLX0100]: the file was cut short while it was read\n"}) say(STDERR_FILENO, text);
    end_from_signal(static_cast<int>(ExitCode::Unreadable));
  }
  const ProgressText progress = progress_text();
  const char* const lines[] = {"rlxc: error[RLX0900]: internal error in ", progress.text,
                               "\n  help: reproduce with: ", crash_command, "\n"};
  for (const int fd : {STDERR_FILENO, open("rlxc-crash.txt", O_WRONLY | O_CREAT | O_TRUNC, 0644)})
    for (const char* text : lines)
      if (fd >= 0) say(fd, text);
  _exit(static_cast<int>(ExitCode::Internal));
}

}  // namespace

void write_reproducer(const CompileOptions& o, const std::string& target, int64_t runs, const std::string& pass,
                      const std::string& where, Diagnostics& d) {
  const bool ours = std::ranges::any_of(
      d.items(), [](const Diagnostic& i) { return i.code == Code::VerifyFailed || i.code == Code::PassChangedResult; });
  if (!ours || runs < 1 || !find_pass(pass)) return;
  CompileOptions again = o;
  again.most_runs = runs - 1;
  again.verify = again.verify_each = false;
  again.stop_before.clear();
  Diagnostics ignored;
  auto model = load_model(again, ignored);
  const TargetTraits* traits = find_target(target);
  const auto passes = pass_options(again, ignored);
  Compiled out;
  if (!model || !traits || !passes || !optimise(*model->module, *traits, again, *passes, {}, &out, ignored)) return;
  std::error_code error;
  std::filesystem::create_directories(where, error);
  const std::string file = (std::filesystem::path(where) / ("reproducer-" + pass + ".txt")).string();
  Diagnostics written;
  const bool whole = std::filesystem::file_size(o.input, error) <= kWholeModel && !error;
  write_file(file, print(*model->module, {.full_data = whole, .origins = false}), written);
  if (!written.ok()) return;
  d.add({Severity::Note,
         Code::Internal,
         {},
         "reproducer: rlxc compile " + file + " --target " + target + " --passes " + pass + " --verify-each",
         {}});
}

void report_crashes(int argc, const char* const* argv) {
  std::string command = "rlxc";
  for (int i = 1; i < argc; ++i) command += std::string(" '") + argv[i] + "'";
  put(crash_command, sizeof crash_command, command);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction action {};
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace rlxc
