#include "commands/progress_line.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>

#include "support/progress.h"

namespace rlxc {
namespace {

std::mutex line_mutex;
bool line_shown = false;
std::string said_before;  // the stage when other text was printed; it is not shown again

void erase_line() {
  constexpr std::string_view kErase = "\r\033[K";
  if (line_shown) [[maybe_unused]]
    const auto written = write(STDERR_FILENO, kErase.data(), kErase.size());
  line_shown = false;
}

void tick(const std::stop_token& stop) {
  using namespace std::chrono_literals;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, 1s, [] { return false; });
  for (int quarter = 4; !stop.stop_requested(); ++quarter) {
    const ProgressText stage = progress_text();
    char text[120];
    const int length = std::snprintf(text, sizeof text, "\r\033[K%.80s, %d s", stage.text, quarter / 4);
    {
      const std::lock_guard guard(line_mutex);
      line_shown = said_before != stage.text;
      if (line_shown) [[maybe_unused]]
        const auto written = write(STDERR_FILENO, text, static_cast<size_t>(length));
    }
    wake.wait_for(lock, stop, 250ms, [] { return false; });
  }
}

}  // namespace

ProgressLine::ProgressLine() : ticker_(tick) {}

ProgressLine::~ProgressLine() {
  ticker_.request_stop();
  if (ticker_.joinable()) ticker_.join();
  clear_progress_line();
}

void clear_progress_line() {
  const std::lock_guard guard(line_mutex);
  erase_line();
  said_before = progress_text().text;
}

}  // namespace rlxc
