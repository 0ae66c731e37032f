// Differences between two compiles, and conditions on them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/junit.h"
#include "report/snapshot.h"
#include "support/json_writer.h"

namespace rlxc::report {

// NAME COMPARISON NUMBER. A signed number is compared with the change, a number with "%" with the relative change:
// "plan.arena>+2%", "fusion.launches>+0", "dispatch.unsupported>0".
struct Condition {
  enum class Compare : uint8_t { Less, LessEqual, Greater, GreaterEqual, Equal, NotEqual };
  std::string text, name;
  Compare compare = Compare::Greater;
  double limit = 0;
  bool change = false, relative = false;
};
// A number may be a size: 8K, 8KiB, 8MiB (support/text.h).
std::optional<Condition> parse_condition(std::string_view, std::string* message);

// Whether a condition can be one on one compile: not on a change, and on a fact that a compile may have (fact_names.h).
bool check_assertion(const Condition&, std::string* message);

// Conditions on one compile (`rlxc compile --assert`). Appends a line for each that does not hold. Returns false with a message
// for those of which check_assertion does; facts that the snapshot lacks are 0.
bool assert_facts(const Snapshot&, const std::vector<Condition>&, std::vector<std::string>* failed, std::string* message);

struct Change {
  std::string name;
  Fact before, after;
  bool added = false, removed = false;  // for items and texts
};

struct Diff {
  std::vector<Change> changes;  // sorted by name
  struct Check {
    Condition condition;
    double before = 0, after = 0;
    bool failed = false;
  };
  std::vector<Check> checks;
  // Returns whether a check failed or, without conditions, whether anything changed.
  bool finding() const;
};

// Returns false with a message for a condition on a name that neither snapshot has or could have (fact_names.h), or on a text
// (symbolic sizes). O(facts).
bool compare(const Snapshot& before, const Snapshot& after, const std::vector<Condition>&, Diff*, std::string* message);

// Numbers first, then added and removed items; at most `limit` lines per kind of item.
std::string diff_text(const Diff&, size_t limit = 20);
// Tables of Markdown: numbers, then conditions, then the number of items by kind with the first `limit` of each, folded.
std::string diff_markdown(const Diff&, size_t limit = 50);
// A case for each condition; without any, a failed one for each change, or one that passed.
std::vector<TestCase> diff_cases(const Diff&);
void write_diff(const Diff&, JsonWriter&, const std::string& version);

}  // namespace rlxc::report
