#include "report/snapshot.h"

#include <algorithm>

#include "support/json_form.h"
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
    {"fusion.json", "summary.formed", "fusion.formed"},
    {"fusion.json", "summary.declined", "fusion.declined"},
    {"fusion.json", "summary.groups", "fusion.formed"},    // formats 1 and 2
    {"fusion.json", "summary.misses", "fusion.declined"},  // formats 1 and 2
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
    {"sharding.json", "arena_bytes", "sharding.activations"},
    {"sharding.json", "exchanges.count", "sharding.exchanges"},
    {"sharding.json", "exchanges.bytes", "sharding.bytes"},
    {"sharding.json", "time.exchange_ns", "sharding.exchange_ns"},
    {"sharding.json", "time.compute_ns", "sharding.compute_ns"},
    {"sharding.json", "time.run_ns", "sharding.run_ns"},
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
    {"fusion.json", "patterns", "fusion.formed", {"pattern"}, "formed"},
    {"fusion.json", "patterns", "fusion.declined", {"pattern"}, "declined"},
    {"fusion.json", "patterns", "fusion.formed", {"pattern"}, "groups"},    // formats 1 and 2
    {"fusion.json", "patterns", "fusion.declined", {"pattern"}, "misses"},  // formats 1 and 2
    {"fusion.json", "reasons", "fusion.declined", {"pattern", "reason"}, "count"},
    {"fusion.json", "formed", "fusion.formed", {"pattern", "node"}, ""},
    {"fusion.json", "declined", "fusion.declined", {"pattern", "node", "reason"}, ""},
    {"fusion.json", "groups", "fusion.formed", {"pattern", "node"}, ""},              // formats 1 and 2
    {"fusion.json", "misses", "fusion.declined", {"pattern", "node", "reason"}, ""},  // formats 1 and 2
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
  if (const auto fault = form_fault(json)) {
    *message = fault->message;
    return false;
  }
  return FactReader(artefact, json, prefix, out).run(message);
}

std::optional<Fact> find_fact(const Snapshot& facts, std::string_view name) {
  constexpr std::string_view kMisses = "fusion.misses";
  const size_t from = name.find('/') == name.npos ? 0 : name.find('/') + 1;
  std::string stored(name);
  const bool misses = name.substr(from).starts_with(kMisses);
  if (misses) stored.replace(from, kMisses.size(), "fusion.declined");
  const auto it = facts.find(stored);
  if (it == facts.end()) return std::nullopt;
  Fact f = it->second;
  if (!misses) return f;
  const auto is_no_miss = [](std::string_view of) { return of.ends_with(".cost") || of.ends_with(".no_kernel"); };
  if (is_no_miss(stored)) return Fact{};
  for (auto each = facts.lower_bound(stored + "."); each != facts.end() && each->first.starts_with(stored + "."); ++each)
    if (is_no_miss(each->first)) f.number -= each->second.number;
  return f;
}

std::vector<std::string> scalar_names() {
  std::vector<std::string> names;
  for (const ScalarRule& r : kScalars) names.emplace_back(r.name);
  return names;
}

std::vector<std::string_view> artefacts_with_facts() {
  std::vector<std::string_view> names;
  for (const ScalarRule& r : kScalars)
    if (names.empty() || names.back() != r.artefact) names.push_back(r.artefact);
  names.push_back("quant.json");
  return names;
}

}  // namespace rlxc::report
