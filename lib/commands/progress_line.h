// A line on the terminal that says what the program is doing, once it takes more than a second.
#pragma once
#include <thread>

namespace rlxc {

// Shows the stage (support/progress.h) on standard error, four times a second, until it is destroyed. One at a time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  std::jthread ticker_;
};

// Removes the line until the stage changes. Call before other text goes to the terminal.
void clear_progress_line();

}  // namespace rlxc
