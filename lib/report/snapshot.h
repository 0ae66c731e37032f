// The facts of a compile that two compiles can be compared by: numbers and items, read back from the JSON artefacts by one table
// (snapshot.cpp). A name is dotted: "plan.arena", "ops.MatMul", "fusion.miss attention @ node_3 (layout)".
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rlxc::report {

struct Fact {
  double number = 0;
  std::string text;   // of facts that are texts (hashes); then `number` is 0
  bool item = false;  // it is there or not; else a number whose absence is 0
  bool operator==(const Fact&) const = default;
};
using Snapshot = std::map<std::string, Fact, std::less<>>;

// Adds the facts of one artefact ("plan.json") under names that begin with `prefix`. False with a message when the text is no
// JSON or not of the artefact's form. O(bytes log facts).
bool read_facts(std::string_view artefact, std::string_view json, const std::string& prefix, Snapshot*, std::string* message);

// The artefacts that have facts.
std::vector<std::string_view> artefacts_with_facts();

}  // namespace rlxc::report
