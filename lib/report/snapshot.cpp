#include "report/snapshot.h"

#include <algorithm>

#include "support/json_reader.h"

namespace rlxc::report {
namespace {

// A scalar at a path of object members.
struct ScalarRule {
  std::string_view artefact, path, name;
};
constexpr ScalarRule kScalars[] = {
    {"fusion.json", "summary.nodes.after", "fusion.nodes"},
    {"fusion.json", "summary.launches.after", "fusion.launches"},
    {"fusion.json", "summary.traffic.after", "fusion.traffic"},
    {"fusion.json", "summary.groups", "fusion.groups"},
    {"fusion.json", "summary.misses", "fusion.misses"},
    {"dispatch.json", "summary.native", "dispatch.native"},
    {"dispatch.json", "summary.common-ir", "dispatch.common_ir"},
    {"dispatch.json", "summary.rewritten", "dispatch.rewritten"},
    {"dispatch.json", "summary.unsupported", "dispatch.unsupported"},
    {"precision.json", "policy", "precision.policy"},
    {"plan.json", "arena.bytes", "plan.arena"},
    {"plan.json", "arena.lower_bound", "plan.lower_bound"},
    {"plan.json", "peak.bytes", "plan.peak"},
    {"plan.json", "arena.gap", "plan.gap"},
    {"plan.json", "savings.without_reuse", "plan.without_reuse"},
    {"plan.json", "savings.unshared", "plan.without_reuse"},  // format 1
    {"sharding.json", "devices", "sharding.devices"},
    {"sharding.json", "weights.bytes", "sharding.weights"},
    {"sharding.json", "exchanges.count", "sharding.exchanges"},
    {"sharding.json", "exchanges.bytes", "sharding.bytes"},
    {"sharding.json", "time.exchange_ns", "sharding.exchange_ns"},
    {"sharding.json", "time.compute_ns", "sharding.compute_ns"},
    {"manifest.json", "fingerprint", "fingerprint"},
};

// One fact per object of a list: a number, a text, or (empty `value`) an item, named by the members `keys`.
struct ListRule {
  std::string_view artefact, path, name;
  std::string_view keys[3];  // trailing ones may be empty
  std::string_view value;
};
constexpr ListRule kLists[] = {
    {"fusion.json", "ops", "ops", {"op"}, "after"},
    {"fusion.json", "patterns", "fusion.groups", {"pattern"}, "groups"},
    {"fusion.json", "patterns", "fusion.misses", {"pattern"}, "misses"},
    {"fusion.json", "reasons", "fusion.misses", {"pattern", "reason"}, "count"},
    {"fusion.json", "groups", "fusion.group", {"pattern", "node"}, ""},
    {"fusion.json", "misses", "fusion.miss", {"pattern", "node", "reason"}, ""},
    {"dispatch.json", "kinds", "dispatch.native", {"op"}, "native"},
    {"dispatch.json", "kinds", "dispatch.common_ir", {"op"}, "common-ir"},
    {"dispatch.json", "kinds", "dispatch.rewritten", {"op"}, "rewritten"},
    {"dispatch.json", "kinds", "dispatch.unsupported", {"op"}, "unsupported"},
    {"precision.json", "summary", "precision.casts", {"from", "to"}, "count"},
    {"precision.json", "results", "precision.bytes", {"dtype"}, "bytes"},
    {"precision.json", "casts", "precision.cast", {"value", "from", "to"}, ""},
    {"quant.json", "pairs", "quant.pair", {"value"}, ""},
    {"plan.json", "regions", "plan", {"region"}, "bytes"},
    {"manifest.json", "files", "kernels", {"path"}, "sha256"},
};

class FactReader {
 public:
  FactReader(std::string_view artefact, std::string_view json, const std::string& prefix, Snapshot* out)
      : artefact_(artefact), in_(json), prefix_(prefix), out_(*out) {}

  bool run(std::string* message) {
    object("");
    in_.finish();
    if (!in_.ok()) *message = in_.error();
    return in_.ok();
  }

 private:
  bool leads_to_rule(const std::string& path) const {
    return std::ranges::any_of(kScalars,
                               [&](const ScalarRule& r) { return r.artefact == artefact_ && r.path.starts_with(path + "."); });
  }

  void object(const std::string& path) {
    if (!in_.begin_object()) return;
    for (std::string_view key; in_.next_key(&key);) member(path.empty() ? std::string(key) : path + "." + std::string(key));
  }

  void member(const std::string& path) {
    switch (in_.peek()) {
      case JsonReader::Kind::Object: leads_to_rule(path) ? object(path) : skip(); break;
      case JsonReader::Kind::Array: list(path); break;
      default: {
        const auto rule =
            std::ranges::find_if(kScalars, [&](const ScalarRule& r) { return r.artefact == artefact_ && r.path == path; });
        rule == std::end(kScalars) ? skip() : add(std::string(rule->name), scalar());
      }
    }
  }

  void skip() { in_.skip(); }

  Fact scalar() {
    Fact f;
    if (in_.peek() == JsonReader::Kind::Number) in_.number(&f.number);
    else if (in_.peek() == JsonReader::Kind::String) in_.string(&f.text);
    else in_.skip();
    return f;
  }

  void add(std::string name, Fact f) { out_.insert_or_assign(prefix_ + name, std::move(f)); }

  void list(const std::string& path) {
    const auto applies = [&](const ListRule& r) { return r.artefact == artefact_ && r.path == path; };
    if (std::ranges::none_of(kLists, applies)) return skip();
    if (!in_.begin_array()) return;
    while (in_.next_item()) {
      std::map<std::string, Fact, std::less<>> row;
      if (!in_.begin_object()) return;
      for (std::string_view key; in_.next_key(&key);) {
        const std::string name(key);  // a copy, because the next string invalidates the view
        row[name] = scalar();
      }
      for (const ListRule& r : kLists)
        if (applies(r)) item(r, row);
    }
  }

  void item(const ListRule& r, const std::map<std::string, Fact, std::less<>>& row) {
    const auto field = [&](std::string_view key) {
      const auto it = row.find(key);
      return it == row.end() ? std::string() : it->second.text;
    };
    const std::string first = field(r.keys[0]);
    if (r.name == "kernels" && !first.starts_with("kernels/")) return;
    std::string name(r.name);
    if (r.value.empty()) {
      name += " " + first;
      if (!r.keys[1].empty()) name += (r.name.starts_with("fusion") ? " @ " : ": ") + field(r.keys[1]);
      if (!r.keys[2].empty()) name += r.name.starts_with("fusion") ? " (" + field(r.keys[2]) + ")" : " to " + field(r.keys[2]);
      return add(std::move(name), {1, {}, true});
    }
    name += "." + (r.name == "kernels" ? first.substr(8) : first);
    if (!r.keys[1].empty()) name += (r.name.starts_with("fusion") ? "." : "_") + field(r.keys[1]);
    const auto it = row.find(r.value);
    if (it != row.end()) add(std::move(name), it->second);
  }

  std::string_view artefact_;
  JsonReader in_;
  const std::string& prefix_;
  Snapshot& out_;
};

}  // namespace

bool read_facts(std::string_view artefact, std::string_view json, const std::string& prefix, Snapshot* out,
                std::string* message) {
  return FactReader(artefact, json, prefix, out).run(message);
}

void drop_unprofitable(Snapshot* facts) {
  constexpr std::string_view kMisses = "fusion.misses", kCost = ".cost";
  std::vector<std::pair<std::string, double>> dropped;
  for (const auto& [name, fact] : *facts)
    if (name.starts_with(kMisses) && name.ends_with(kCost)) dropped.emplace_back(name, fact.number);
  for (const auto& [name, count] : dropped) {
    facts->erase(name);
    for (const std::string& total : {name.substr(0, name.size() - kCost.size()), std::string(kMisses)})
      if (const auto it = facts->find(total); it != facts->end()) it->second.number -= count;
  }
}

std::vector<std::string_view> artefacts_with_facts() {
  std::vector<std::string_view> names;
  for (const ScalarRule& r : kScalars)
    if (names.empty() || names.back() != r.artefact) names.push_back(r.artefact);
  names.push_back("quant.json");
  return names;
}

}  // namespace rlxc::report
