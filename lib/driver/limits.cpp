#include "driver/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "support/parse_number.h"
#include "support/progress.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace rlxc {
namespace {

uint64_t max_memory;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RLXC_HAS_SHADOW
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(RLXC_HAS_SHADOW)
constexpr bool kHasShadow = true;  // the shadow of a sanitizer counts as memory of the process
#else
constexpr bool kHasShadow = false;
#endif

// The number that follows `key` in a file of the system; nullopt if there is none.
std::optional<uint64_t> number_in(const char* path, std::string_view key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    std::string_view text = trim(std::string_view(line).substr(key.size()));
    uint64_t n = 0;
    if (parse_number(text.substr(0, text.find(' ')), &n)) return n;
  }
  return std::nullopt;
}

// Half of the memory that is free on the machine and in the control group of the process; nullopt where the system does not tell.
std::optional<uint64_t> half_of_free_memory() {
  auto free = number_in("/proc/meminfo", "MemAvailable:");
  if (free) *free *= 1024;
  const auto most = number_in("/sys/fs/cgroup/memory.max", "");
  const auto used = number_in("/sys/fs/cgroup/memory.current", "");
  if (most && used) free = std::min(free.value_or(UINT64_MAX), *most - std::min(*most, *used));
  return free ? std::optional(*free / 2) : std::nullopt;
}

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

// One meter for all evaluations of the process that have the same limit.
std::shared_ptr<eval::MemoryMeter> meter_of(uint64_t limit) {
  static std::mutex mutex;
  static std::map<uint64_t, std::shared_ptr<eval::MemoryMeter>> meters;
  const std::lock_guard lock(mutex);
  std::shared_ptr<eval::MemoryMeter>& meter = meters[limit];
  if (!meter) meter = std::make_shared<eval::MemoryMeter>(limit);
  return meter;
}

}  // namespace

eval::Options evaluation_limits(const CompileOptions& o) {
  eval::Options limits;
  limits.max_steps = o.max_operations;
  limits.max_bytes = o.max_memory.value_or(limits.max_bytes);
  limits.memory = meter_of(limits.max_bytes);
  return limits;
}

void limit_process(const CommandLine& o) {
  constexpr uint64_t kLongest = 1 << 30;  // seconds
  if (o.max_time && *o.max_time < kLongest) std::thread(end_after, *o.max_time).detach();
  const bool has_shadow = kHasShadow || o.sanitize;
  const auto most = o.max_memory || has_shadow ? o.max_memory : half_of_free_memory();
  if (!most) return;
  max_memory = *most;
  rlimit limit{};
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, max_memory);
  setrlimit(RLIMIT_DATA, &limit);
  std::set_new_handler(out_of_memory);
}

}  // namespace rlxc
