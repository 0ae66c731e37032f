// Runs the check of `rlxc bisect` and `rlxc reduce`: a shell command that exits with 0 if the result is good.
#pragma once
#include <optional>
#include <string>

#include "support/diagnostics.h"

namespace rlxc {

// Returns whether the check passes; nullopt with Code::ToolFailed if there is no such command or a signal ended it by the user.
// `what` is printed with the outcome.
std::optional<bool> run_check(const std::string& command, const std::string& what, Diagnostics&);

}  // namespace rlxc
