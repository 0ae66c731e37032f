// Independent pieces of work on all processors.
#pragma once
#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace rlxc::eval {

constexpr double kWorkOfThread = 4e6;  // elementary operations that are worth starting a thread for

// Calls f(first, last) for ranges that make up [0, count), at the same time if all of it takes `work` operations or more. What f
// does for one index must not depend on what it does for another: then results do not depend on the number of threads.
template <class F>
void in_parallel(int64_t count, double work, F f) {
  const int64_t most = std::min<int64_t>(std::max(1u, std::thread::hardware_concurrency()), count);
  const int64_t threads = std::min(most, static_cast<int64_t>(std::min(work / kWorkOfThread, 1024.0)));
  if (threads < 2) return f(int64_t{0}, count);
  std::vector<std::jthread> others;
  const auto piece = [=, &f](int64_t i) { f(count * i / threads, count * (i + 1) / threads); };
  for (int64_t i = 1; i < threads; ++i) {
    try {
      others.emplace_back(piece, i);
    } catch (const std::system_error&) {
      piece(i);  // there is no room for a thread
    }
  }
  piece(0);
}

}  // namespace rlxc::eval
