// Names of facts that a compile may lack because their count is 0. A condition on a name that no compile can have would hold for
// ever: `fusion.misses.atention==0`.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace rlxc::report {

// What is wrong with a name of a number, or nothing. A "TARGET/" in front is not looked at.
std::string fact_name_fault(std::string_view name);

}  // namespace rlxc::report
