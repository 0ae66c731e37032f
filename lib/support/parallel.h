// Independent tasks on all processors.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace rlxc {

// Calls task(i) once for each i < count. Returns when all are done. Threads take the tasks in order. Tasks must not throw and
// must not share mutable data.
template <class F>
void run_in_parallel(size_t count, F task) {
  std::atomic<size_t> next = 0;
  const auto take_tasks = [&] {
    for (size_t i; (i = next++) < count;) task(i);
  };
  std::vector<std::jthread> others;
  const size_t most = count < 2 ? 1 : std::min<size_t>(count, std::thread::hardware_concurrency());
  for (size_t i = 1; i < most; ++i) {
    try {
      others.emplace_back(take_tasks);
    } catch (const std::system_error&) {
      break;  // the threads at hand do the rest
    }
  }
  take_tasks();
}

}  // namespace rlxc
