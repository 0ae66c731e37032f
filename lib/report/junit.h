// JUnit XML, which servers of continuous integration show.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlxc::report {

struct TestCase {
  enum class Outcome : uint8_t { Passed, Failed, Skipped };
  std::string group, name;  // the attributes `classname` and `name`
  Outcome outcome = Outcome::Passed;
  std::string message;  // of a failure, or the reason of a skip
  std::optional<double> seconds = {};
};

// One suite. Characters that XML does not allow become U+FFFD. O(characters).
std::string junit_xml(std::string_view suite, std::span<const TestCase>);

}  // namespace rlxc::report
