#include "driver/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <new>
#include <thread>

#include "support/progress.h"
#include "support/temporary_folder.h"

namespace rlxc {
namespace {

uint64_t max_memory;

// Must not allocate.
void say(const char* what, uint64_t limit, const char* unit, const char* flag) {
  char text[512];
  const int length = std::snprintf(text, sizeof text, "rlxc: error[RLX0105]: %s: %s more than %llu %s\n  help: %s allows more\n",
                                   progress_text().text, what, static_cast<unsigned long long>(limit), unit, flag);
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::min(sizeof text - 1, static_cast<size_t>(length)));
}

void out_of_memory() {
  std::set_new_handler(nullptr);
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = limit.rlim_max;  // memory for the cleanup
  setrlimit(RLIMIT_DATA, &limit);
  say("needs", max_memory, "bytes", "--max-memory BYTES");
  end_process(static_cast<int>(ExitCode::Limit));
}

void end_after(uint64_t seconds) {
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const SignalDelay for_good;
  say("takes", seconds, "seconds", "--max-time SECONDS");
  end_process(static_cast<int>(ExitCode::Limit));
}

}  // namespace

eval::Options evaluation_limits(const CompileOptions& o) {
  eval::Options limits;
  limits.max_steps = o.max_operations;
  limits.max_bytes = o.max_memory.value_or(limits.max_bytes);
  return limits;
}

void limit_process(const CompileOptions& o) {
  constexpr uint64_t kLongest = 1 << 30;  // seconds
  if (o.max_time && *o.max_time < kLongest) std::thread(end_after, *o.max_time).detach();
  if (!o.max_memory) return;
  max_memory = *o.max_memory;
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, max_memory);
  setrlimit(RLIMIT_DATA, &limit);
  std::set_new_handler(out_of_memory);
}

}  // namespace rlxc
