// Facts of a compile, for comparison with another: numbers and items read from the JSON artefacts by a table (snapshot.cpp).
// Names are dotted: "plan.arena", "ops.MatMul", "fusion.miss attention @ node_3 (layout)".
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rlxc::report {

struct Fact {
  double number = 0;
  std::string text;   // for facts that are texts (hashes); `number` is 0 then
  bool item = false;  // present or absent; otherwise a number that defaults to 0
  bool operator==(const Fact&) const = default;
};
using Snapshot = std::map<std::string, Fact, std::less<>>;

// Adds the facts of one artefact ("plan.json"), with `prefix` before their names. Returns false with a message if the text is not
// JSON of the artefact's format. O(bytes log facts).
bool read_facts(std::string_view artefact, std::string_view json, const std::string& prefix, Snapshot*, std::string* message);

// For conditions on one compile: leaves out misses of a fusion that would not pay (reason "cost") from fusion.misses,
// fusion.misses.PATTERN and fusion.misses.PATTERN.REASON.
void drop_unprofitable(Snapshot*);

// The artefacts that contain facts.
std::vector<std::string_view> artefacts_with_facts();

}  // namespace rlxc::report
