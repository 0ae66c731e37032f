// Finds an order of tasks with a low peak of live bytes. A buffer is live from the task that makes it to its last reader. Beam
// search over sets of completed tasks with the best partial order of each (dynamic programming, Ahn et al., "Ordering Chaos:
// Memory-Aware Scheduling of Irregularly Wired Neural Networks", MLSys 2020); exact if no more than `width` sets arise.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rlxc::plan {

struct Task {
  std::vector<uint32_t> reads, makes;  // buffers; each is made by at most one task
  std::vector<uint32_t> overwrites;    // subset of `reads`: a result reuses the bytes if this is the last reader
  uint64_t scratch = 0;                // bytes live only while it runs
};

struct TaskGraph {
  std::vector<Task> tasks;                            // in the given order, producers before consumers
  std::vector<uint64_t> bytes;                        // by buffer
  std::vector<bool> kept;                             // by buffer: live to the end
  std::vector<std::pair<uint32_t, uint32_t>> before;  // further pairs of tasks whose order is fixed
};

struct Order {
  std::vector<uint32_t> tasks;
  uint64_t peak = 0;   // largest number of live bytes
  bool exact = false;  // no order has a lower peak
};

uint64_t peak_bytes(const TaskGraph&, std::span<const uint32_t> order);

// Returns an order with the lowest peak found, or the given order if none is lower. Work is bounded: the beam narrows as tasks
// grow, down to a greedy choice. Deterministic.
Order schedule(const TaskGraph&);

}  // namespace rlxc::plan
