#include "options/option_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <type_traits>

#include "support/number.h"
#include "support/parse_number.h"
#include "support/text.h"

namespace rlxc {
namespace {

const CommandLine kDefaults{};

// Returns whether the value name lists the choices.
bool shows_choices(const Option& o) { return o.value.empty() && o.choices.size() < 70; }

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

std::string got(const std::string& form, std::string_view word) { return "takes " + form + ", got " + quote(word); }

// Index of the choice with this name or alternative spelling, or -1.
int choice_index(const Option& o, std::string_view word) {
  const auto all = split(o.choices, '|');
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].ends_with(":FILE") && word.starts_with(all[i].substr(0, all[i].size() - 4))) return static_cast<int>(i);
    for (std::string_view spelling : split(all[i], '='))
      if (spelling == word) return static_cast<int>(i);
  }
  return -1;
}

// Words of other tools, and what says the same here.
std::string_view word_elsewhere(const Option& o, std::string_view word) {
  struct Row {
    std::string_view key, words, advice;
  };
  constexpr Row kRows[] = {
      {"precision", "int8|int4|i8|i4|uint8|w8a8|q8_0|q4_0", "--weights int8 (or int4), or `rlxc calibrate` and --calibration"},
      {"precision", "bf16|bfloat16", "automixed-bf16"},
      {"precision", "fp16|half|float16", "f16, or automixed"},
      {"precision", "mixed|amp|auto", "automixed"},
      {"precision", "fp32|float32|float|single", "f32"},
      {"precision", "fp8|float8", "fp8-e4m3 or fp8-e5m2"}};
  for (const Row& r : kRows) {
    const auto words = split(r.words, '|');
    if (r.key == o.key && std::ranges::find(words, word) != words.end()) return r.advice;
  }
  return {};
}

std::string no_choice(const Option& o, std::string_view word) {
  const auto names = choice_names(o);
  if (const std::string_view advice = word_elsewhere(o, word); !advice.empty())
    return got("one of " + join(names, ", "), word) + "; that is " + std::string(advice) + " here";
  const auto close = closest(word, names);
  return got("one of " + join(names, ", "), word) + (close ? "; did you mean " + std::string(*close) + "?" : "");
}

// A limit without an exponent where it is a whole number of few digits: 1000000.
std::string plain(double limit) {
  constexpr double kMost = 1e15;
  const bool whole = limit == std::floor(limit) && std::abs(limit) < kMost;
  return whole ? std::to_string(static_cast<int64_t>(limit)) : shortest(limit);
}

std::string set(bool& field, const Option&, std::string_view word) {
  if (word != "true" && word != "false") return got("true or false", word);
  field = word == "true";
  return {};
}

template <class T>
requires is_number<T> std::string set(T& field, const Option& o, std::string_view word) {
  T n{};
  const bool is_bytes = o.value == "BYTES";
  if constexpr (std::is_same_v<T, uint64_t>) {
    const auto bytes = is_bytes ? parse_bytes(word) : std::nullopt;
    if (bytes) n = *bytes;
    else if (is_bytes || !parse_number(word, &n)) return got(is_bytes ? "bytes, as 4096, 64K or 8MiB" : "a whole number", word);
  } else if (!parse_number(word, &n)) {
    return got(std::is_floating_point_v<T> ? "a number" : "a whole number", word);
  }
  if (!o.choices.empty() && choice_index(o, word) < 0) return no_choice(o, word);
  const auto value = static_cast<double>(n);
  if (!(value >= o.low && value <= o.high)) return got("a number from " + plain(o.low) + " to " + plain(o.high), word);
  if constexpr (std::is_unsigned_v<T>)
    if (o.power_of_two && (n & (n - 1))) return got("a power of two", word);
  field = n;
  return {};
}

template <class T>
std::string set(std::optional<T>& field, const Option& o, std::string_view word) {
  T n{};
  std::string error = set(n, o, word);
  if (error.empty()) field = n;
  return error;
}

template <class T>
requires std::is_enum_v<T> std::string set(T& field, const Option& o, std::string_view word) {
  const int i = choice_index(o, word);
  if (i < 0) return no_choice(o, word);
  field = static_cast<T>(i);
  return {};
}

std::string set(std::string& field, const Option& o, std::string_view word) {
  if (!o.choices.empty() && choice_index(o, word) < 0) return no_choice(o, word);
  field = word;
  return {};
}

std::string set(std::vector<std::string>& field, const Option& o, std::string_view word) {
  if (!o.choices.empty() && choice_index(o, word) < 0) return no_choice(o, word);
  field.emplace_back(word);
  return "";
}

std::string set(std::set<std::string, std::less<>>& field, const Option&, std::string_view word) {
  field.emplace(word);
  return {};
}

std::string set(std::set<Emit>& field, const Option& o, std::string_view word) {
  if (word == "svg") {
    field.insert({Emit::Graph, Emit::Arena});
    return {};
  }
  const int i = choice_index(o, word);
  if (i < 0) return no_choice(o, word);
  field.insert(static_cast<Emit>(i));
  return {};
}

std::string set(DimBindings& field, const Option&, std::string_view word) {
  const size_t eq = word.rfind('=');
  int64_t size = 0;
  if (eq == word.npos || eq == 0 || !parse_number(word.substr(eq + 1), &size) || size < 0 || size > Dim::kMax)
    return got("NAME=SIZE with a size >= 0", word);
  field[std::string(word.substr(0, eq))] = size;
  return {};
}

std::string set(std::vector<DimBindings>& field, const Option& o, std::string_view word) {
  DimBindings sizes;
  for (std::string_view item : split(word, ','))
    if (std::string error = set(sizes, o, item); !error.empty()) return error;
  field.push_back(std::move(sizes));
  return {};
}

std::string set(SymbolRanges& field, const Option&, std::string_view word) {
  const size_t eq = word.rfind('='), dots = word.find("..", eq == word.npos ? 0 : eq);
  int64_t low = 0, high = 0;
  if (eq == word.npos || eq == 0 || dots == word.npos || !parse_number(word.substr(eq + 1, dots - eq - 1), &low) ||
      !parse_number(word.substr(dots + 2), &high) || low < 0 || low > high || high > Dim::kMax)
    return got("NAME=LOW..HIGH with 0 <= LOW <= HIGH", word);
  field[std::string(word.substr(0, eq))] = {Dim(low), Dim(high)};
  return {};
}

std::string set(std::vector<std::pair<std::string, std::string>>& field, const Option& o, std::string_view word) {
  const size_t eq = word.find('=');
  if (eq == word.npos || eq == 0 || eq + 1 == word.size()) return got(std::string(o.value), word);
  field.emplace_back(word.substr(0, eq), word.substr(eq + 1));
  return {};
}

// A name that gets two values.
std::string contradiction(const std::vector<std::string_view>& items) {
  std::map<std::string_view, std::string_view> seen;
  for (std::string_view item : items)
    if (const auto [at, is_new] = seen.emplace(item.substr(0, item.rfind('=')), item); !is_new && at->second != item)
      return "has both " + quote(at->second) + " and " + quote(item);
  return {};
}

// The items of a value as words accepted by `set`.
std::vector<std::string> words_of(bool v, const Option&) { return {v ? "true" : "false"}; }
template <class T>
requires is_number<T> std::vector<std::string> words_of(T v, const Option&) {
  if constexpr (std::is_floating_point_v<T>) return {shortest(v)};
  else return {std::to_string(v)};
}
template <class T>
std::vector<std::string> words_of(const std::optional<T>& v, const Option& o) {
  return v ? words_of(*v, o) : std::vector<std::string>();
}
template <class T>
requires std::is_enum_v<T> std::vector<std::string> words_of(T v, const Option& o) {
  return {std::string(choice_names(o)[static_cast<size_t>(v)])};
}
std::vector<std::string> words_of(const std::string& v, const Option&) {
  return v.empty() ? std::vector<std::string>() : std::vector{v};
}
std::vector<std::string> words_of(const std::vector<std::string>& v, const Option&) { return v; }
std::vector<std::string> words_of(const std::set<std::string, std::less<>>& v, const Option&) { return {v.begin(), v.end()}; }
std::vector<std::string> words_of(const std::set<Emit>& v, const Option& o) {
  std::vector<std::string> words;
  for (Emit e : v) words.push_back(words_of(e, o)[0]);
  return words;
}
std::vector<std::string> words_of(const DimBindings& v, const Option&) {
  std::vector<std::string> words;
  for (const auto& [name, size] : v) words.push_back(name + "=" + std::to_string(size));
  return words;
}
std::vector<std::string> words_of(const std::vector<DimBindings>& v, const Option& o) {
  std::vector<std::string> words;
  for (const DimBindings& sizes : v) words.push_back(join(words_of(sizes, o), ","));
  return words;
}
std::vector<std::string> words_of(const SymbolRanges& v, const Option&) {
  std::vector<std::string> words;
  for (const auto& [name, r] : v)
    words.push_back(name + "=" + std::to_string(r.low->size()) + ".." + std::to_string(r.high->size()));
  return words;
}
std::vector<std::string> words_of(const std::vector<std::pair<std::string, std::string>>& v, const Option&) {
  std::vector<std::string> words;
  for (const auto& [input, output] : v) words.push_back(input + "=" + output);
  return words;
}

std::vector<std::string> words_of(const CommandLine& line, const Option& o) {
  return o.field.visit([&](auto member) { return words_of(line.*member, o); });
}

// "custom:dir/map.json" becomes "custom:map.json".
std::string without_folders(const std::string& path) {
  const size_t start = path.starts_with("custom:") ? 7 : 0, slash = path.find_last_of('/');
  return slash == path.npos || slash < start ? path : path.substr(0, start) + path.substr(slash + 1);
}

void write(JsonWriter& w, bool v, const Option&) { w.boolean(v); }
void write(JsonWriter& w, int64_t v, const Option&) { w.integer(v); }
void write(JsonWriter& w, uint64_t v, const Option&) { w.unsigned_integer(v); }
void write(JsonWriter& w, double v, const Option&) { w.number(v); }
template <class T>
void write(JsonWriter& w, const std::optional<T>& v, const Option& o) {
  if (v) write(w, *v, o);
  else w.null();
}
template <class T>
requires std::is_enum_v<T>
void write(JsonWriter& w, const T& v, const Option& o) { w.string(words_of(v, o)[0]); }
void write(JsonWriter& w, const std::string& v, const Option&) { w.string(v); }
void write(JsonWriter& w, const DimBindings& v, const Option&) {
  w.begin_object(JsonLayout::Line);
  for (const auto& [name, size] : v) w.key(name).integer(size);
  w.end_object();
}
void write(JsonWriter& w, const SymbolRanges& v, const Option&) {
  w.begin_object(JsonLayout::Line);
  for (const auto& [name, r] : v)
    w.key(name).begin_array(JsonLayout::Line).integer(r.low->size()).integer(r.high->size()).end_array();
  w.end_object();
}
template <class T>
void write(JsonWriter& w, const T& v, const Option& o) {  // lists
  w.begin_array(JsonLayout::Line);
  for (const std::string& word : words_of(v, o)) w.string(word);
  w.end_array();
}

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

// Reads a JSON value, in the form written by `write`, as words.
template <class T>
bool read_words(JsonReader& r, std::vector<std::string>* words) {
  if constexpr (is_optional<T>) {
    return read_words<typename T::value_type>(r, words);
  } else if constexpr (std::is_same_v<T, bool>) {
    bool v = false;
    return r.boolean(&v) && (words->push_back(v ? "true" : "false"), true);
  } else if constexpr (is_number<T>) {
    std::string_view v;
    if (r.peek() != JsonReader::Kind::Number) return r.fail("a number is expected here");
    return r.raw(&v) && (words->emplace_back(v), true);
  } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, std::string>) {
    return r.string(&words->emplace_back());
  } else if constexpr (std::is_same_v<T, DimBindings> || std::is_same_v<T, SymbolRanges>) {
    if (!r.begin_object()) return false;
    for (std::string_view key; r.next_key(&key);) {
      std::string word = std::string(key) + "=";
      int64_t low = 0, high = 0;
      if constexpr (std::is_same_v<T, DimBindings>) {
        r.integer(&low);
        word += std::to_string(low);
      } else {
        if (!r.begin_array() || !r.next_item() || !r.integer(&low) || !r.next_item() || !r.integer(&high) || r.next_item())
          return r.fail("two sizes are expected here");
        word += std::to_string(low) + ".." + std::to_string(high);
      }
      words->push_back(std::move(word));
    }
    return r.ok();
  } else {
    if (!r.begin_array()) return false;
    while (r.next_item()) r.string(&words->emplace_back());
    return r.ok();
  }
}

template <class T>
void write_type(JsonWriter& w, const Option& o) {
  if constexpr (is_optional<T>) {
    w.key("anyOf").begin_array(JsonLayout::Line).begin_object(JsonLayout::Line);
    write_type<typename T::value_type>(w, o);
    w.end_object().begin_object(JsonLayout::Line).key("type").string("null").end_object().end_array();
  } else if constexpr (std::is_same_v<T, bool>) {
    w.key("type").string("boolean");
  } else if constexpr (is_number<T>) {
    w.key("type").string(std::is_floating_point_v<T> ? "number" : "integer");
    if (!o.choices.empty()) {
      w.key("enum").begin_array(JsonLayout::Line);
      for (std::string_view c : choice_names(o)) w.raw(c);
      w.end_array();
    } else if (o.low > -9e18) {
      w.key("minimum").number(o.low);
    }
    if (o.high < 1e19) w.key("maximum").number(o.high);
  } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, std::string>) {
    w.key("type").string("string");
    if (o.choices.empty()) return;
    std::vector<std::string_view> names = choice_names(o);
    const bool open = names.back().ends_with(":FILE");
    if (!open) w.key("enum").begin_array(JsonLayout::Line);
    else w.key("pattern").string("^(" + join(std::span(names).first(names.size() - 1), "|") + "|custom:.*)$");
    if (open) return;
    for (std::string_view name : names) w.string(name);
    w.end_array();
  } else if constexpr (std::is_same_v<T, DimBindings>) {
    w.key("type").string("object").key("additionalProperties").raw(R"({"type": "integer", "minimum": 0})");
  } else if constexpr (std::is_same_v<T, SymbolRanges>) {
    w.key("type")
        .string("object")
        .key("additionalProperties")
        .raw(R"({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2})");
  } else {
    w.key("type").string("array").key("items").begin_object(JsonLayout::Line).key("type").string("string");
    if (!o.choices.empty()) {
      w.key("enum").begin_array(JsonLayout::Line);
      for (std::string_view name : choice_names(o)) w.string(name);
      w.end_array();
    }
    w.end_object();
  }
}

}  // namespace

const Option* find_option(std::string_view key) {
  const auto it = std::ranges::find(kOptions, key, &Option::key);
  return key.empty() || it == std::end(kOptions) ? nullptr : it;
}

std::string_view long_name(const Option& o) {
  const std::string_view flag = o.flag.substr(o.flag.starts_with('!'));
  return flag.empty() ? o.key : flag.substr(0, flag.find(','));
}

std::vector<std::string_view> choice_names(const Option& o) {
  std::vector<std::string_view> names = split(o.choices, '|');
  for (std::string_view& n : names) n = n.substr(0, n.find('='));
  return names;
}

bool is_flag(const Option& o) {
  if (!o.step.empty()) return o.value.empty();
  return o.field.visit([]<class T>(T CommandLine::*) { return std::is_same_v<T, bool>; });
}

bool is_list(const Option& o) {
  return o.field.visit([]<class T>(T CommandLine::*) {
    return !is_number<T> && !is_optional<T> && !std::is_enum_v<T> && !std::is_same_v<T, std::string> && !std::is_same_v<T, bool>;
  });
}

std::string help_text(const Option& o) {
  return std::string(o.help) + (o.choices.empty() || shows_choices(o) ? "" : ": " + join(choice_names(o), ", "));
}

std::string value_name(const Option& o) {
  if (is_flag(o)) return {};
  if (!o.value.empty()) return std::string(o.value);
  if (!o.choices.empty()) return shows_choices(o) ? "{" + join(choice_names(o), ",") + "}" : "NAME";
  return o.field.visit([]<class T>(T CommandLine::*) -> std::string {
    if constexpr (std::is_same_v<T, bool>) return "";
    else if constexpr (is_number<T> || is_optional<T>) return "N";
    else return "TEXT";
  });
}

std::string set_option(CommandLine& line, const Option& o, std::string_view word) {
  return o.field.visit([&]<class T>(T CommandLine::*member) -> std::string {
    if (!o.comma_separated) return set(line.*member, o, word);
    T all = line.*member;
    if constexpr (std::is_same_v<T, DimBindings> || std::is_same_v<T, SymbolRanges>)
      if (const std::string error = contradiction(split(word, ',')); !error.empty()) return error;
    for (std::string_view item : split(word, ','))
      if (std::string error = set(all, o, item); !error.empty()) return error;
    line.*member = std::move(all);
    return {};
  });
}

void begin_words(CommandLine& line, const Option& o) {
  o.field.visit([&]<class T>(T CommandLine::*member) {
    if constexpr (std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, std::set<Emit>> ||
                  std::is_same_v<T, std::vector<DimBindings>> ||
                  std::is_same_v<T, std::vector<std::pair<std::string, std::string>>>)
      (line.*member).clear();
  });
}

std::string read_value(CommandLine& line, const Option& o, JsonReader& r) {
  if (r.peek() == JsonReader::Kind::Null) return r.null() ? "" : r.error();
  std::vector<std::string> words;
  return o.field.visit([&]<class T>(T CommandLine::*member) -> std::string {
    if (!read_words<T>(r, &words)) return {};  // malformed document; the reader has the error
    if (words == std::vector<std::string>{""}) words.clear();
    if (words == words_of(kDefaults, o)) {  // the default may be outside of the range: 0 selects the target's value
      line.*member = kDefaults.*member;
      return {};
    }
    begin_words(line, o);
    for (const std::string& word : words)
      if (std::string error = set(line.*member, o, word); !error.empty()) return error;
    return {};
  });
}

std::string value_text(const CommandLine& line, const Option& o) { return join(words_of(line, o), ","); }

void write_value(JsonWriter& w, const CommandLine& line, const Option& o, bool manifest) {
  if (manifest && o.is_path) w.string(without_folders(value_text(line, o)));
  else o.field.visit([&](auto member) { write(w, line.*member, o); });
}

bool is_default(const CommandLine& line, const Option& o) { return words_of(line, o) == words_of(kDefaults, o); }

void write_value_schema(JsonWriter& w, const Option& o) {
  o.field.visit([&]<class T>(T CommandLine::*member) {
    Option shown = o;
    if constexpr (is_number<T>) shown.low = std::min(o.low, static_cast<double>(kDefaults.*member));
    write_type<T>(w, shown);
  });
}

}  // namespace rlxc
