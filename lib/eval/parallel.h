// Parallel loops over independent work.
#pragma once
#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace rlxc::eval {

constexpr double kWorkOfThread = 4e6;  // elementary operations that justify a thread

// Calls f(first, last) for ranges that cover [0, count), in parallel if `work` is large enough. The work on different indices
// must be independent, so that results do not depend on the number of threads.
template <class F>
void in_parallel(int64_t count, double work, F f) {
  const int64_t most = std::min(count, static_cast<int64_t>(std::min(work / kWorkOfThread, 1024.0)));
  const int64_t threads = most < 2 ? 1 : std::min<int64_t>(most, std::thread::hardware_concurrency());
  if (threads < 2) return f(int64_t{0}, count);
  std::vector<std::jthread> others;
  const auto piece = [=, &f](int64_t i) { f(count * i / threads, count * (i + 1) / threads); };
  for (int64_t i = 1; i < threads; ++i) {
    try {
      others.emplace_back(piece, i);
    } catch (const std::system_error&) {
      piece(i);  // no thread available
    }
  }
  piece(0);
}

}  // namespace rlxc::eval
