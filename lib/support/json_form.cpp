#include "support/json_form.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <vector>

#include "support/json_reader.h"
#include "support/number.h"
#include "support/parse_number.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

enum Kinds : uint8_t { kObject = 1, kArray = 2, kString = 4, kInteger = 8, kFraction = 16, kBool = 32, kNull = 64, kAny = 127 };
constexpr std::pair<uint8_t, std::string_view> kKindNames[] = {
    {kObject, "an object"},   {kArray, "a list"},       {kString, "a text"}, {kInteger | kFraction, "a number"},
    {kInteger, "an integer"}, {kBool, "true or false"}, {kNull, "null"}};

uint8_t kinds_of(JsonReader::Kind kind) {
  switch (kind) {
    case JsonReader::Kind::Object: return kObject;
    case JsonReader::Kind::Array: return kArray;
    case JsonReader::Kind::String: return kString;
    case JsonReader::Kind::Bool: return kBool;
    case JsonReader::Kind::Null: return kNull;
    default: return kInteger | kFraction;
  }
}

// Which values a schema allows. Bounds are of numbers, words of texts.
struct Allowed {
  uint8_t kinds = kAny;
  std::optional<std::vector<std::string>> words;
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool above_least = false;  // without the least itself
  int64_t items = 0;         // fewest of a list
  std::vector<std::string> required;

  void also(const Allowed& a) {
    kinds &= a.kinds;
    if (!words) words = a.words;
    if (a.least > least) least = a.least, above_least = a.above_least;
    most = std::min(most, a.most);
    items = std::max(items, a.items);
    for (const std::string& name : a.required)
      if (std::ranges::find(required, name) == required.end()) required.push_back(name);
  }
  // The union of both schemas. One that allows no numbers says nothing about their bounds.
  void either(const Allowed& a) {
    const auto combined = [&](uint8_t of, auto combine) {
      if (!(kinds & of)) combine(*this, a, true);
      else if (a.kinds & of) combine(*this, a, false);
    };
    combined(kInteger | kFraction, [](Allowed& x, const Allowed& y, bool copies) {
      if (copies || y.least < x.least) x.least = y.least, x.above_least = y.above_least;
      x.most = copies ? y.most : std::max(x.most, y.most);
    });
    combined(kString, [](Allowed& x, const Allowed& y, bool copies) {
      if (copies || !y.words) x.words = y.words;
      else if (x.words) x.words->insert(x.words->end(), y.words->begin(), y.words->end());
    });
    combined(kArray, [](Allowed& x, const Allowed& y, bool copies) { x.items = copies ? y.items : std::min(x.items, y.items); });
    combined(kObject, [](Allowed& x, const Allowed& y, bool copies) {
      if (copies) x.required = y.required;
      else std::erase_if(x.required, [&](const std::string& n) { return std::ranges::find(y.required, n) == y.required.end(); });
    });
    kinds |= a.kinds;
  }
};

// Nodes are positions in a list.
struct SchemaNode {
  Allowed own;
  std::map<std::string, size_t, std::less<>> members;
  std::vector<size_t> others;               // of members without a node of their own
  bool closed = false;                      // there are no others
  std::vector<size_t> items;                // of lists
  std::vector<size_t> also;                 // allOf
  std::vector<std::vector<size_t>> either;  // anyOf, oneOf
  std::vector<std::string> of;              // $ref, as FILE#/$defs/NAME
};

// Nodes that hold for a value at once, with those that they refer to.
struct State {
  std::map<std::string, std::vector<size_t>, std::less<>> members;
  std::vector<size_t> others, items;
  bool closed = false;
  Allowed allowed;
  std::map<std::string, State*, std::less<>> next;  // of members that have been met; "" is that of items
  bool is_free() const {
    return members.empty() && others.empty() && items.empty() && !closed && allowed.kinds == kAny && !allowed.words;
  }
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
      } else if (key == "allOf") {
        std::vector<size_t> all;
        list(r, &all);
        nodes_[at].also.insert(nodes_[at].also.end(), all.begin(), all.end());
      } else if (key == "anyOf" || key == "oneOf") {
        std::vector<size_t> all;
        list(r, &all);
        nodes_[at].either.push_back(std::move(all));
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
        values(r, key, &nodes_[at].own);
      }
    }
    return at;
  }

  // The bounds that a keyword sets for values.
  static void values(JsonReader& r, std::string_view key, Allowed* out) {
    if (key == "type") {
      out->kinds &= r.peek() == JsonReader::Kind::Array ? kinds_of_list(r) : kinds_of_type(r);
    } else if (key == "enum" || key == "const") {
      std::vector<std::string> words;
      uint8_t kinds = 0;
      const auto value = [&] {
        const JsonReader::Kind kind = r.peek();
        kinds |= kinds_of(kind);
        kind == JsonReader::Kind::String ? r.string(&words.emplace_back()) : r.skip();
      };
      if (key == "const") value();
      else
        for (r.begin_array(); r.next_item();) value();
      out->kinds &= kinds;
      if (kinds & kString) out->words = std::move(words);
    } else if (key == "required") {
      for (r.begin_array(); r.next_item();) r.string(&out->required.emplace_back());
    } else if (key == "minimum" || key == "exclusiveMinimum") {
      r.number(&out->least);
      out->above_least = key == "exclusiveMinimum";
    } else if (key == "maximum") {
      r.number(&out->most);
    } else if (key == "minItems") {
      r.integer(&out->items);
    } else {
      r.skip();
    }
  }
  static uint8_t kinds_of_type(JsonReader& r) {
    constexpr std::pair<std::string_view, uint8_t> kTypes[] = {
        {"object", kObject},   {"array", kArray},  {"string", kString}, {"number", kInteger | kFraction},
        {"integer", kInteger}, {"boolean", kBool}, {"null", kNull}};
    std::string type;
    r.string(&type);
    for (const auto& [name, kinds] : kTypes)
      if (name == type) return kinds;
    return kAny;
  }
  static uint8_t kinds_of_list(JsonReader& r) {
    uint8_t kinds = 0;
    for (r.begin_array(); r.next_item();) kinds |= kinds_of_type(r);
    return kinds;
  }

  // The node with all that it refers to.
  Allowed allowed(size_t at) {
    Allowed a = nodes_[at].own;
    for (size_t n : together(at)) a.also(allowed(n));
    for (const std::vector<size_t>& group : std::vector<std::vector<size_t>>(nodes_[at].either)) a.also(any_of(group));
    return a;
  }
  Allowed any_of(const std::vector<size_t>& nodes) {
    if (nodes.empty()) return {};
    Allowed a = allowed(nodes[0]);
    for (size_t i = 1; i < nodes.size(); ++i) a.either(allowed(nodes[i]));
    return a;
  }

  // Nodes that hold for the same value.
  std::vector<size_t> together(size_t at) {
    std::vector<size_t> more = nodes_[at].also;
    for (const std::string& name : std::vector<std::string>(nodes_[at].of)) {
      load(name.substr(0, name.find('#')));
      if (const auto to = files_.find(name); to != files_.end()) more.push_back(to->second);
    }
    return more;
  }

  State* state(std::vector<size_t> of) {
    const std::vector<size_t> given = of;
    for (size_t i = 0; i < of.size(); ++i) {
      std::vector<size_t> more = together(of[i]);
      for (const std::vector<size_t>& group : nodes_[of[i]].either) more.insert(more.end(), group.begin(), group.end());
      for (size_t n : more)
        if (std::ranges::find(of, n) == of.end()) of.push_back(n);
    }
    std::ranges::sort(of);
    const auto [at, is_new] = states_.try_emplace(of);
    State& s = at->second;
    if (!is_new) return &s;
    s.allowed = any_of(given);
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

// The fault of the value at the beginning of the text, such as "must be an integer"; empty if there is none.
std::string value_fault(const Allowed& a, std::string_view text) {
  JsonReader r(text);
  uint8_t kinds = kinds_of(r.peek());
  double number = 0;
  if (kinds & kInteger) {
    if (!r.number(&number) || !std::isfinite(number)) return "is beyond the range of numbers";
    kinds = number == std::floor(number) ? kInteger : kFraction;
  }
  if (!(a.kinds & kinds)) {
    std::vector<std::string_view> names;
    uint8_t left = a.kinds;
    for (const auto& [of, name] : kKindNames) {
      if ((left & of) != of) continue;
      names.push_back(name);
      left &= static_cast<uint8_t>(~of);
    }
    return "must be " + join(names, " or ");
  }
  if (kinds == kString && a.words) {
    std::string word;
    r.string(&word);
    const std::vector<std::string_view> words(a.words->begin(), a.words->end());
    if (std::ranges::find(words, word) != words.end()) return {};
    if (words.size() == 1) return "must be " + quote(words[0]);
    const auto near = closest(word, words);
    return "is " + quote(word) + "; " + (near ? "did you mean " + quote(*near) + "?" : "known are " + join(words, ", "));
  }
  if (kinds & (kInteger | kFraction)) {
    if (number < a.least || (number == a.least && a.above_least))
      return (a.above_least ? "must be greater than " : "must be at least ") + shortest(a.least);
    if (number > a.most) return "must be at most " + shortest(a.most);
  }
  return {};
}

struct Walk {
  Schemas& schemas;
  std::string_view text;
  bool checks_values = true;  // not those of an older major version
  JsonReader r{text};
  struct Step {
    std::string key;  // of a member; that of an item is empty
    int64_t index = 0;
  };
  std::vector<Step> steps = {};  // to the value at hand

  std::string path() const {
    std::string out;
    for (const Step& s : steps)
      out += s.key.empty() ? "[" + std::to_string(s.index) + "]" : (out.empty() ? "" : ".") + ForeignText(s.key).line();
    return out.empty() ? "the document" : quote(out);
  }

  std::optional<JsonFault> run(State* s) {
    if (s->is_free()) {
      r.skip();
      return std::nullopt;
    }
    const size_t at = r.at();
    const auto fault = [&](const std::string& why) { return JsonFault{path() + " " + why, at}; };
    const JsonReader::Kind kind = r.peek();
    if (checks_values)
      if (const std::string why = value_fault(s->allowed, text.substr(at)); !why.empty()) return fault(why);
    if (kind == JsonReader::Kind::Array) {
      State* const items = schemas.items(s);
      int64_t count = 0;
      steps.emplace_back();
      for (r.begin_array(); r.next_item(); steps.back().index = ++count)
        if (auto inner = run(items)) return inner;
      steps.pop_back();
      if (checks_values && count < s->allowed.items)
        return fault("must have at least " + std::to_string(s->allowed.items) + " items");
    } else if (kind == JsonReader::Kind::Object) {
      const std::vector<std::string>& required = s->allowed.required;
      std::vector<bool> seen(required.size());
      r.begin_object();
      for (std::string_view key; r.next_key(&key);) {
        State* const to = schemas.member(s, key);
        if (!to) return JsonFault{unknown(key, *s), r.at()};
        if (const auto needed = std::ranges::find(required, key); needed != required.end())
          seen[static_cast<size_t>(needed - required.begin())] = true;
        steps.push_back({std::string(key)});
        if (auto inner = run(to)) return inner;
        steps.pop_back();
      }
      const auto lacking = std::ranges::find(seen, false);
      if (checks_values && lacking != seen.end())
        return fault("lacks " + quote(required[static_cast<size_t>(lacking - seen.begin())]));
    } else {
      r.skip();
    }
    return std::nullopt;
  }
};

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

namespace {

std::optional<JsonFault> walked(std::string_view text, std::initializer_list<std::string_view> formats, bool names_only) {
  const auto head = read_head(text);
  if (!head || (formats.size() > 0 && std::ranges::find(formats, head->format) == formats.end())) return std::nullopt;
  if (auto fault = fault_of(*head)) return fault;
  if (head->at != 0 && *numbers_of(head->version) > *numbers_of(newest_version(head->format))) return std::nullopt;
  const bool is_old = head->at != 0 && numbers_of(head->version)->first < numbers_of(newest_version(head->format))->first;
  if (is_old && head->format != "graph" && head->format != "lir") return std::nullopt;
  Schemas schemas;
  State* const root = schemas.root(head->format);
  if (!root) return std::nullopt;
  // The schema of graphs allows the values of older versions.
  const bool checks_values = !names_only && (!is_old || head->format == "graph");
  auto fault = Walk{schemas, text, checks_values}.run(root);
  JsonReader syntax(text);
  return fault && syntax.skip() && syntax.finish() ? fault : std::nullopt;
}

}  // namespace

std::optional<JsonFault> form_fault(std::string_view text, std::initializer_list<std::string_view> formats) {
  return walked(text, formats, false);
}
std::optional<JsonFault> name_fault(std::string_view text, std::initializer_list<std::string_view> formats) {
  return walked(text, formats, true);
}

}  // namespace rlxc
