// Runs each case and engine in a separate process: a crash or hang is one failed case.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cases.h"
#include "commands/run.h"

namespace rlxc::suite {

struct Settings {
  RunRequest run;  // tolerances, engine and target
  bool verify_each = false;
  unsigned seconds = 60;  // per case
  size_t jobs = 1;        // concurrent cases
};

// Skipped: rejected with a clear error. Any other problem is a failure.
enum class Outcome : uint8_t { Passed, Failed, Skipped };

struct Verdict {
  Outcome outcome = Outcome::Passed;
  std::string message;
};

// Calls `report` for each case in order, as soon as its verdict and all earlier ones are known.
void run_cases(const std::vector<Case>&, const Settings&, const std::function<void(const Case&, const Verdict&)>& report);

}  // namespace rlxc::suite
