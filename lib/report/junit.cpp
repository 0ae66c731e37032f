#include "report/junit.h"

#include <algorithm>

#include "support/foreign_text.h"
#include "support/number.h"

namespace rlxc::report {

std::string junit_xml(std::string_view suite, std::span<const TestCase> cases) {
  const auto count = [&](TestCase::Outcome o) { return std::to_string(std::ranges::count(cases, o, &TestCase::outcome)); };
  const std::string counts = " tests=\"" + std::to_string(cases.size()) + "\" failures=\"" + count(TestCase::Outcome::Failed) +
                             "\" errors=\"0\" skipped=\"" + count(TestCase::Outcome::Skipped) + "\"";
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + counts + ">\n  <testsuite name=\"" +
                    markup(suite) + "\"" + counts + ">\n";
  for (const TestCase& c : cases) {
    out += "    <testcase classname=\"" + markup(c.group) + "\" name=\"" + markup(c.name) + "\"";
    if (c.seconds) out += " time=\"" + shortest(*c.seconds) + "\"";
    if (c.outcome == TestCase::Outcome::Passed) {
      out += "/>\n";
      continue;
    }
    const std::string_view tag = c.outcome == TestCase::Outcome::Failed ? "failure" : "skipped";
    const std::string_view message = c.message, line = message.substr(0, message.find('\n'));
    ((out += ">\n      <") += tag) += " message=\"" + markup(line) + "\">" + markup(message) + "</";
    (out += tag) += ">\n    </testcase>\n";
  }
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace rlxc::report
