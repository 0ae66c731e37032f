// The order of execution decides how much lives at a time. Tasks make and read buffers; a buffer lives from the task that makes
// it to the last that reads it. The search keeps the best partial orders of each set of tasks (dynamic programming over sets, Ahn
// et al., "Ordering Chaos: Memory-Aware Scheduling of Irregularly Wired Neural Networks", MLSys 2020), at most `width` of them:
// it is exact while there are no more.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rlxc::plan {

struct Task {
  std::vector<uint32_t> reads, makes;  // buffers; each is made by at most one task
  std::vector<uint32_t> overwrites;    // among `reads`: whose bytes a result takes over if this is their last reader
  uint64_t scratch = 0;                // bytes while it runs
};

struct TaskGraph {
  std::vector<Task> tasks;                            // in the given order, in which makers come before readers
  std::vector<uint64_t> bytes;                        // by buffer
  std::vector<bool> kept;                             // by buffer: lives to the end
  std::vector<std::pair<uint32_t, uint32_t>> before;  // further pairs of tasks that keep their order
};

struct Order {
  std::vector<uint32_t> tasks;
  uint64_t peak = 0;   // most bytes that live at a time
  bool exact = false;  // no order has a lower peak
};

uint64_t peak_bytes(const TaskGraph&, std::span<const uint32_t> order);

// An order whose peak is at most that of the given one, which is returned where nothing lower is found. The work is bounded: the
// width of the search falls with the number of tasks, down to greedy choice. Deterministic.
Order schedule(const TaskGraph&);

}  // namespace rlxc::plan
