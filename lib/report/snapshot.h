// Facts of a compile, for comparison with another: numbers and items read from the JSON artefacts by a table (snapshot.cpp).
// Names are dotted: "plan.arena", "ops.MatMul", "fusion.declined attention @ node_3 (layout)".
#pragma once
#include <map>
#include <optional>
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

// A fact by its name, for conditions. The names fusion.misses, fusion.misses.PATTERN and fusion.misses.PATTERN.REASON count the
// facts of fusion.declined without fusions that would not pay (reason "cost") or that the target cannot run ("no_kernel").
std::optional<Fact> find_fact(const Snapshot&, std::string_view name);

// The names of facts that are no counts by a name: "plan.arena".
std::vector<std::string> scalar_names();

// The artefacts that contain facts.
std::vector<std::string_view> artefacts_with_facts();

}  // namespace rlxc::report
