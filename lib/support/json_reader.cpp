#include "support/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <limits>

#include "support/text.h"

namespace rlxc {
namespace {

constexpr size_t kFewKeys = 24;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// ASCII bytes that need no escape in a string.
constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

void append_utf8(uint32_t c, std::string* out) {
  const auto put = [&](uint32_t byte) { *out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xC0 | c >> 6), put(0x80 | (c & 63));
  if (c < 0x10000) return put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
  put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
}

bool hex4(std::string_view s, uint32_t* out) {
  if (s.size() < 4) return false;
  const auto [end, error] = std::from_chars(s.data(), s.data() + 4, *out, 16);
  return error == std::errc{} && end == s.data() + 4 && s[0] != '-';
}

}  // namespace

bool JsonReader::fail(std::string message, size_t at) {
  if (!error_.empty()) return false;
  error_ = std::move(message);
  error_at_ = std::min(at, text_.size());
  at_ = text_.size();
  return false;
}

bool JsonReader::expected(const char* what) {
  space();
  if (at_ >= text_.size()) return fail("the text ends where " + std::string(what) + " should be");
  return fail("expected " + std::string(what));
}

void JsonReader::space() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
}

JsonReader::Kind JsonReader::peek() {
  space();
  if (at_ >= text_.size()) return Kind::Bad;
  switch (text_[at_]) {
    case '{': return Kind::Object;
    case '[': return Kind::Array;
    case '"': return Kind::String;
    case 't':
    case 'f': return Kind::Bool;
    case 'n': return Kind::Null;
    default: return is_digit(text_[at_]) || text_[at_] == '-' ? Kind::Number : Kind::Bad;
  }
}

bool JsonReader::begin(char open) {
  if (!ok()) return false;
  space();
  if (at_ >= text_.size() || text_[at_] != open) return expected(open == '{' ? "an object" : "an array");
  if (depth_ == kMaxDepth) return fail("nested deeper than " + std::to_string(kMaxDepth) + " levels");
  ++at_;
  if (depth_ == levels_.size()) levels_.emplace_back();
  Level& level = levels_[depth_++];
  level.object = open == '{', level.first = true;
  level.keys.clear(), level.table.clear();
  return true;
}
bool JsonReader::begin_object() { return begin('{'); }
bool JsonReader::begin_array() { return begin('['); }

bool JsonReader::end_or_comma(char close, bool* done) {
  if (!ok()) return false;
  Level& level = levels_[depth_ - 1];
  space();
  *done = at_ < text_.size() && text_[at_] == close;
  if (*done) return ++at_, --depth_, true;
  if (!level.first) {
    if (at_ >= text_.size() || text_[at_] != ',') return expected(close == '}' ? "',' or '}'" : "',' or ']'");
    ++at_;
  }
  level.first = false;
  return true;
}

bool JsonReader::next_item() {
  bool done = false;
  return end_or_comma(']', &done) && !done;
}

bool JsonReader::next_key(std::string_view* key) {
  bool done = false, escaped = false;
  if (!end_or_comma('}', &done) || done) return false;
  space();
  const size_t at = at_;
  std::string_view inside;
  if (at_ >= text_.size() || text_[at_] != '"') return expected("a key in double quotes");
  if (!scan_string(&inside, &escaped) || !new_key(levels_[depth_ - 1], inside, at)) return false;
  if (escaped) {
    if (!unescape(inside, at + 1, &scratch_)) return false;
    inside = scratch_;
  }
  *key = inside;
  space();
  if (at_ >= text_.size() || text_[at_] != ':') return expected("':'");
  ++at_;
  return true;
}

bool JsonReader::new_key(Level& level, std::string_view key, size_t at) {
  const auto twice = [&] { return fail("the key \"" + std::string(key) + "\" stands twice in one object", at); };
  if (level.keys.size() < kFewKeys) {
    if (std::find(level.keys.begin(), level.keys.end(), key) != level.keys.end()) return twice();
    return level.keys.push_back(key), true;
  }
  // Open addressing, at most half full.
  constexpr uint32_t kFree = std::numeric_limits<uint32_t>::max();
  const auto slot = [&](std::string_view k) {
    size_t i = std::hash<std::string_view>{}(k) & (level.table.size() - 1);
    while (level.table[i] != kFree && level.keys[level.table[i]] != k) i = (i + 1) & (level.table.size() - 1);
    return i;
  };
  if (level.table.size() < 2 * (level.keys.size() + 1)) {
    level.table.assign(std::max<size_t>(64, 2 * level.table.size()), kFree);
    for (size_t k = 0; k < level.keys.size(); ++k) level.table[slot(level.keys[k])] = static_cast<uint32_t>(k);
  }
  const size_t i = slot(key);
  if (level.table[i] != kFree) return twice();
  level.table[i] = static_cast<uint32_t>(level.keys.size());
  level.keys.push_back(key);
  return true;
}

// Scans from the opening to behind the closing quote.
bool JsonReader::scan_string(std::string_view* inside, bool* escaped) {
  const size_t begin = ++at_;
  *escaped = false;
  for (;;) {
    while (at_ < text_.size() && kPlain[static_cast<unsigned char>(text_[at_])]) ++at_;
    if (at_ >= text_.size()) return fail("the text ends within a string", begin - 1);
    const char c = text_[at_];
    if (c == '"') break;
    if (c == '\\') {
      *escaped = true;
      at_ += 2;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      return fail("a control character stands in a string as it is");
    } else {
      const int step = utf8_step(text_.substr(at_));
      if (step < 0) return fail("ill-formed UTF-8");
      at_ += static_cast<size_t>(step);
    }
  }
  *inside = text_.substr(begin, at_ - begin);
  ++at_;
  return true;
}

bool JsonReader::unescape(std::string_view s, size_t at, std::string* out) {
  out->clear();
  for (size_t i = 0; i < s.size(); ++i) {
    const size_t stop = std::min(s.find('\\', i), s.size());
    out->append(s, i, stop - i);
    if ((i = stop) >= s.size()) break;
    const char c = ++i < s.size() ? s[i] : '\0';
    static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t k = kFrom.find(c); c != '\0' && k != kFrom.npos) {
      *out += kTo[k];
      continue;
    }
    uint32_t unit = 0, low = 0;
    if (c != 'u' || !hex4(s.substr(i + 1), &unit)) return fail("malformed escape in a string", at + i);
    i += 4;
    if (unit >= 0xD800 && unit < 0xDC00) {
      const bool pair = s.substr(i + 1).starts_with("\\u") && hex4(s.substr(i + 3), &low) && low >= 0xDC00 && low < 0xE000;
      if (!pair) return fail("half of a surrogate pair in a string", at + i);
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
      i += 6;
    } else if (unit >= 0xDC00 && unit < 0xE000) {
      return fail("half of a surrogate pair in a string", at + i);
    }
    append_utf8(unit, out);
  }
  return true;
}

bool JsonReader::string(std::string_view* out) {
  if (!ok()) return false;
  if (peek() != Kind::String) return expected("a string");
  const size_t at = at_;
  bool escaped = false;
  if (!scan_string(out, &escaped)) return false;
  if (!escaped) return true;
  if (!unescape(*out, at + 1, &scratch_)) return false;
  *out = scratch_;
  return true;
}

bool JsonReader::string(std::string* out) {
  std::string_view view;
  return string(&view) && (out->assign(view), true);
}

bool JsonReader::scan_number(std::string_view* out) {
  if (!ok()) return false;
  if (peek() != Kind::Number) return expected("a number");
  const size_t begin = at_;
  const auto digits = [&] {
    const size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > first;
  };
  const auto at = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
  if (at('-')) ++at_;
  bool good = true;
  if (at('0')) ++at_;
  else good = digits();
  if (at('.')) ++at_, good = good && digits();
  if (at('e') || at('E')) {
    ++at_;
    if (at('+') || at('-')) ++at_;
    good = good && digits();
  }
  if (!good || (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.'))) return fail("malformed number", begin);
  *out = text_.substr(begin, at_ - begin);
  return true;
}

bool JsonReader::integer(int64_t* out) {
  std::string_view s;
  if (!scan_number(&s)) return false;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  if (end != s.data() + s.size()) return fail("expected an integer", at_ - s.size());
  return error == std::errc{} || fail("the integer does not fit in 64 bits", at_ - s.size());
}

bool JsonReader::unsigned_integer(uint64_t* out) {
  std::string_view s;
  if (!scan_number(&s)) return false;
  if (s[0] == '-') return fail("expected an integer that is not negative", at_ - s.size());
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  if (end != s.data() + s.size()) return fail("expected an integer", at_ - s.size());
  return error == std::errc{} || fail("the integer does not fit in 64 bits", at_ - s.size());
}

bool JsonReader::number(double* out) {
  std::string_view s;
  const bool word = ok() && peek() == Kind::String;
  if (word ? !string(&s) : !scan_number(&s)) return false;
  if (word && s != "inf" && s != "-inf" && s != "nan")
    return fail("expected a number, \"inf\", \"-inf\" or \"nan\"", at_ - s.size() - 2);
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  // from_chars does not set *out if the number is out of the range of double.
  if (error == std::errc::result_out_of_range) return fail("the number is beyond the range of doubles", at_ - s.size());
  return true;
}

bool JsonReader::literal(std::string_view word) {
  if (text_.substr(at_).starts_with(word)) return at_ += word.size(), true;
  return fail("expected a value");
}

bool JsonReader::boolean(bool* out) {
  if (!ok()) return false;
  if (peek() != Kind::Bool) return expected("true or false");
  *out = text_[at_] == 't';
  return literal(*out ? "true" : "false");
}

bool JsonReader::null() {
  if (!ok()) return false;
  return peek() == Kind::Null ? literal("null") : expected("null");
}

bool JsonReader::skip() {
  const size_t outer = depth_;
  std::string_view ignored;
  bool flag = false;
  for (;;) {
    if (!ok()) return false;
    switch (peek()) {
      case Kind::Object: begin_object(); break;
      case Kind::Array: begin_array(); break;
      case Kind::String: string(&ignored); break;
      case Kind::Number: scan_number(&ignored); break;
      case Kind::Bool: boolean(&flag); break;
      case Kind::Null: null(); break;
      case Kind::Bad: return expected("a value");
    }
    // Proceeds to the next value inside the skipped container, leaving finished inner containers.
    while (ok() && depth_ > outer) {
      if (levels_[depth_ - 1].object ? next_key(&ignored) : next_item()) break;
    }
    if (!ok() || depth_ == outer) return ok();
  }
}

bool JsonReader::raw(std::string_view* out) {
  space();
  const size_t begin = at_;
  if (!skip()) return false;
  *out = text_.substr(begin, at_ - begin);
  return true;
}

bool JsonReader::finish() {
  if (!ok()) return false;
  space();
  return at_ == text_.size() || fail("text after the end of the value");
}

std::string LineIndex::place(size_t at) {
  if (starts_.empty()) {
    starts_.push_back(0);
    for (size_t p = 0; (p = text_.find('\n', p)) != text_.npos;) starts_.push_back(++p);
  }
  const auto line = std::upper_bound(starts_.begin(), starts_.end(), at) - 1;
  return "line " + std::to_string(line - starts_.begin() + 1) + " column " + std::to_string(at - *line + 1);
}

}  // namespace rlxc
