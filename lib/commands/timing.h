// Times of a compile for programs: --timing of `rlxc compile`.
#pragma once
#include <string>
#include <vector>

#include "driver/compile.h"

namespace rlxc {

struct TimedCompile {
  std::string target;
  std::vector<std::pair<std::string, double>> stages;  // seconds, in order: load, passes, plan, write
  std::vector<PassRecord> passes;
};

// JSON (rlxc-timing) or, for --timing=trace, events of the Chrome trace format, which chrome://tracing and Perfetto read. Passes
// lie one after another inside their stage.
std::string timing_json(const std::vector<TimedCompile>&);
std::string timing_trace(const std::vector<TimedCompile>&);

}  // namespace rlxc
