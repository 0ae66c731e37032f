#include "support/json_form.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "support/json_reader.h"
#include "support/parse_number.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

// Of a schema: what concerns the names of members. Nodes are positions in a list.
struct SchemaNode {
  std::map<std::string, size_t, std::less<>> members;
  std::vector<size_t> others;   // of members without a node of their own
  bool closed = false;          // there are no others
  std::vector<size_t> items;    // of lists
  std::vector<size_t> also;     // allOf, anyOf, oneOf
  std::vector<std::string> of;  // $ref, as FILE#/$defs/NAME
};

// Nodes that hold for a value at once, with those that they refer to.
struct State {
  std::map<std::string, std::vector<size_t>, std::less<>> members;
  std::vector<size_t> others, items;
  bool closed = false;
  std::map<std::string, State*, std::less<>> next;  // of members that have been met; "" is that of items
  bool is_free() const { return members.empty() && others.empty() && items.empty() && !closed; }
};

class Schemas {
 public:
  // The state of a document. Null: there is no such schema.
  State* root(const std::string& name) {
    const auto at = load(name);
    return at ? state({*at}) : nullptr;
  }

  // The state of a member, or null if the schema forbids it. That of a list's items has the key nullopt.
  State* member(State* s, std::string_view key) {
    if (const auto known = s->next.find(key); known != s->next.end()) return known->second;
    const auto own = s->members.find(key);
    if (own == s->members.end() && s->others.empty() && s->closed) return nullptr;
    State* to = state(own == s->members.end() ? s->others : own->second);
    if (own != s->members.end()) s->next.emplace(key, to);  // other names are without number
    return to;
  }
  State* items(State* s) {
    const auto [at, is_new] = s->next.try_emplace("");
    if (is_new) at->second = state(s->items);
    return at->second;
  }

 private:
  std::optional<size_t> load(const std::string& name) {
    if (const auto it = files_.find(name); it != files_.end()) return it->second;
    for (const EmbeddedSchema& s : embedded_schemas()) {
      if (s.name != name) continue;
      JsonReader r(s.text);
      file_ = name;
      const size_t at = node(r);
      files_.emplace(name, at);
      return at;
    }
    return std::nullopt;
  }

  void list(JsonReader& r, std::vector<size_t>* out) {
    for (r.begin_array(); r.next_item();) out->push_back(node(r));
  }

  size_t node(JsonReader& r) {
    const size_t at = nodes_.size();
    nodes_.emplace_back();
    if (r.peek() == JsonReader::Kind::Bool) {
      r.skip();
      return at;
    }
    r.begin_object();
    for (std::string_view key; r.next_key(&key);) {
      if (key == "properties") {
        r.begin_object();
        for (std::string_view name; r.next_key(&name);) {
          const std::string member(name);
          const size_t to = node(r);
          nodes_[at].members.emplace(member, to);
        }
      } else if (key == "additionalProperties" || key == "unevaluatedProperties") {
        bool allowed = true;
        if (r.peek() == JsonReader::Kind::Bool) {
          r.boolean(&allowed);
          nodes_[at].closed |= !allowed;
        } else {
          const size_t to = node(r);
          nodes_[at].others.push_back(to);
        }
      } else if (key == "items") {
        const size_t to = node(r);
        nodes_[at].items.push_back(to);
      } else if (key == "prefixItems") {
        std::vector<size_t> all;
        list(r, &all);
        nodes_[at].items.insert(nodes_[at].items.end(), all.begin(), all.end());
      } else if (key == "allOf" || key == "anyOf" || key == "oneOf") {
        std::vector<size_t> all;
        list(r, &all);
        nodes_[at].also.insert(nodes_[at].also.end(), all.begin(), all.end());
      } else if (key == "$ref") {
        std::string to;
        r.string(&to);
        constexpr std::string_view kEnding = ".schema.json";
        if (const size_t end = to.find(kEnding); end != to.npos) to.erase(end, kEnding.size());
        else to.insert(0, file_);
        nodes_[at].of.push_back(to);
      } else if (key == "$defs") {
        r.begin_object();
        for (std::string_view name; r.next_key(&name);) {
          const std::string full = file_ + "#/$defs/" + std::string(name);
          const size_t to = node(r);
          files_.emplace(full, to);
        }
      } else {
        r.skip();
      }
    }
    return at;
  }

  State* state(std::vector<size_t> of) {
    for (size_t i = 0; i < of.size(); ++i) {
      std::vector<size_t> more = nodes_[of[i]].also;
      for (const std::string& name : std::vector<std::string>(nodes_[of[i]].of)) {
        const std::string file = name.substr(0, name.find('#'));
        load(file);
        if (const auto to = files_.find(name); to != files_.end()) more.push_back(to->second);
      }
      for (size_t n : more)
        if (std::ranges::find(of, n) == of.end()) of.push_back(n);
    }
    std::ranges::sort(of);
    const auto [at, is_new] = states_.try_emplace(of);
    State& s = at->second;
    if (!is_new) return &s;
    for (size_t n : of) {
      const SchemaNode& node = nodes_[n];
      for (const auto& [name, to] : node.members) s.members[name].push_back(to);
      s.others.insert(s.others.end(), node.others.begin(), node.others.end());
      s.items.insert(s.items.end(), node.items.begin(), node.items.end());
      s.closed |= node.closed;
    }
    return &s;
  }

  std::deque<SchemaNode> nodes_;
  std::map<std::string, size_t, std::less<>> files_;  // roots and definitions
  std::map<std::vector<size_t>, State> states_;
  std::string file_;  // that is being read
};

// Whether all letters of one name are in the other, in this order: "attrs" of "attributes".
bool is_short_for(std::string_view abbreviation, std::string_view word) {
  size_t at = 0;
  for (size_t i = 0; i < word.size() && at < abbreviation.size(); ++i) at += word[i] == abbreviation[at];
  return abbreviation.size() >= 3 && at == abbreviation.size() && word[0] == abbreviation[0];
}

std::string unknown(std::string_view key, const State& s) {
  std::vector<std::string_view> known;
  for (const auto& [name, to] : s.members) known.push_back(name);
  auto near = closest(key, known);
  for (size_t i = 0; i < known.size() && !near; ++i)
    if (is_short_for(known[i], key) || is_short_for(key, known[i])) near = known[i];
  return quote(key) + " is not known here; " + (near ? "did you mean " + quote(*near) + "?" : "known are " + join(known, ", "));
}

std::optional<JsonFault> walk(Schemas& schemas, JsonReader& r, State* s) {
  if (s->is_free()) return r.skip(), std::nullopt;
  const JsonReader::Kind kind = r.peek();
  if (kind == JsonReader::Kind::Array) {
    State* const items = schemas.items(s);
    for (r.begin_array(); r.next_item();)
      if (auto fault = walk(schemas, r, items)) return fault;
  } else if (kind == JsonReader::Kind::Object) {
    r.begin_object();
    for (std::string_view key; r.next_key(&key);) {
      State* const to = schemas.member(s, key);
      if (!to) return JsonFault{unknown(key, *s), r.at()};
      if (auto fault = walk(schemas, r, to)) return fault;
    }
  } else {
    r.skip();
  }
  return std::nullopt;
}

// The name, version and place of the version of a document.
struct Head {
  std::string format, version;
  size_t at = 0;
};

std::optional<Head> read_head(std::string_view text) {
  JsonReader r(text);
  Head h;
  if (r.peek() != JsonReader::Kind::Object) return std::nullopt;
  r.begin_object();
  for (std::string_view key; (h.format.empty() || h.at == 0) && r.next_key(&key);) {
    if (key == "format" && r.peek() == JsonReader::Kind::String) {
      r.string(&h.format);
    } else if (key == "format_version") {
      h.at = r.at();
      std::string_view raw;
      if (r.peek() == JsonReader::Kind::String) r.string(&h.version);
      else if (r.raw(&raw)) h.version = raw.substr(0, 16);
    } else {
      r.skip();
    }
  }
  if (!h.format.starts_with("rlxc-")) return std::nullopt;
  h.format.erase(0, 5);
  return h;
}

// The numbers of "2.1".
std::optional<std::pair<int64_t, int64_t>> numbers_of(std::string_view version) {
  const size_t dot = version.find('.');
  int64_t major = 0, minor = 0;
  if (dot == version.npos || !parse_number(version.substr(0, dot), &major) || !parse_number(version.substr(dot + 1), &minor) ||
      major < 1 || minor < 0)
    return std::nullopt;
  return std::pair(major, minor);
}

std::optional<JsonFault> fault_of(const Head& h) {
  if (h.at == 0) return std::nullopt;
  const std::string newest(newest_version(h.format));
  const auto given = numbers_of(h.version);
  const std::string what = "version " + quote(h.version) + " of rlxc-" + ForeignText(h.format).line();
  if (!given) return JsonFault{what + " does not exist; \"" + newest + "\" is the newest", h.at};
  if (given->first <= numbers_of(newest)->first) return std::nullopt;
  return JsonFault{what + " is newer than this rlxc, which reads up to " + newest.substr(0, newest.find('.')) + ".x", h.at};
}

}  // namespace

std::optional<JsonFault> version_fault(std::string_view text) {
  const auto head = read_head(text);
  return head ? fault_of(*head) : std::nullopt;
}

std::optional<JsonFault> form_fault(std::string_view text) {
  const auto head = read_head(text);
  if (!head) return std::nullopt;
  if (auto fault = fault_of(*head)) return fault;
  if (head->at != 0 && *numbers_of(head->version) > *numbers_of(newest_version(head->format))) return std::nullopt;
  Schemas schemas;
  State* const root = schemas.root(head->format);
  if (!root) return std::nullopt;
  JsonReader r(text);
  return walk(schemas, r, root);
}

}  // namespace rlxc
