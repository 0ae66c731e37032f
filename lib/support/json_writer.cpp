#include "support/json_writer.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "support/number.h"
#include "support/output_file.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

JsonWriter::JsonWriter(std::string& out) : text_(&out), buffer_(std::make_unique_for_overwrite<char[]>(kBuffer)) {}
JsonWriter::JsonWriter(OutputFile& out) : file_(&out), buffer_(std::make_unique_for_overwrite<char[]>(kBuffer)) {}
JsonWriter::~JsonWriter() { flush(); }

void JsonWriter::flush() {
  const std::string_view pending(buffer_.get(), used_);
  if (text_) text_->append(pending);
  else if (used_ > 0) file_->write(pending);
  used_ = 0;
}

void JsonWriter::finish() {
  assert(levels_.empty() && !after_key_);
  put('\n');
  flush();
}

void JsonWriter::put(std::string_view s) {
  for (; s.size() > kBuffer; s.remove_prefix(kBuffer)) put(s.substr(0, kBuffer));
  s.copy(room(s.size()), s.size());
  used_ += s.size();
}

void JsonWriter::new_line(size_t indent) {
  char* const out = room(indent + 1);
  *out = '\n';
  std::memset(out + 1, ' ', indent);
  used_ += indent + 1;
}

void JsonWriter::separate() {
  if (after_key_ || levels_.empty()) {
    after_key_ = false;
    return;
  }
  Level& level = levels_.back();
  if (level.layout == JsonLayout::Block) {
    if (!level.empty) put(',');
    new_line(levels_.size());
  } else if (!level.empty) {
    put(", ");
  }
  level.empty = false;
}

JsonWriter& JsonWriter::begin(char open, JsonLayout layout) {
  separate();
  put(open);
  const bool in_line = !levels_.empty() && levels_.back().layout == JsonLayout::Line;
  levels_.push_back({in_line ? JsonLayout::Line : layout, true});
  return *this;
}

JsonWriter& JsonWriter::end(char close) {
  assert(!levels_.empty() && !after_key_);
  const Level level = levels_.back();
  levels_.pop_back();
  if (level.layout == JsonLayout::Block && !level.empty) new_line(levels_.size());
  put(close);
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view k) {
  assert(!levels_.empty() && !after_key_);
  separate();
  quoted(k);
  put(": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::plain_key(std::string_view k) {
  assert(!levels_.empty() && !after_key_);
  separate();
  char* const out = room(k.size() + 4);
  *out = '"';
  std::memcpy(out + 1, k.data(), k.size());
  std::memcpy(out + 1 + k.size(), "\": ", 3);
  used_ += k.size() + 4;
  after_key_ = true;
  return *this;
}

void JsonWriter::quoted(std::string_view s) {
  if (s.size() + 2 <= kBuffer && plain_prefix(s) == s.size()) {
    char* const out = room(s.size() + 2);
    *out = out[s.size() + 1] = '"';
    s.copy(out + 1, s.size());
    used_ += s.size() + 2;
    return;
  }
  put('"');
  while (!s.empty()) {
    const size_t plain = plain_prefix(s);
    put(s.substr(0, plain));
    s.remove_prefix(plain);
    if (s.empty()) break;
    const int step = utf8_step(s);
    const auto length = static_cast<size_t>(std::abs(step));
    if (step < 0) put(kReplacementCharacter);
    else if (step > 1 || s.front() == 0x7F) put(s.substr(0, length));
    else escaped(s.front());
    s.remove_prefix(length);
  }
  put('"');
}

void JsonWriter::escaped(char c) {
  const size_t letter = std::string_view("\"\\\b\f\n\r\t").find(c);
  if (letter != std::string_view::npos) {
    put('\\');
    return put("\"\\bfnrt"[letter]);
  }
  put("\\u00");
  put("0123456789abcdef"[static_cast<uint8_t>(c) >> 4]);
  put("0123456789abcdef"[static_cast<uint8_t>(c) & 15]);
}

JsonWriter& JsonWriter::string(std::string_view s) {
  separate();
  quoted(s);
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t v) {
  separate();
  char* out = room(kNumberChars);
  used_ += static_cast<size_t>(std::to_chars(out, out + kNumberChars, v).ptr - out);
  return *this;
}

JsonWriter& JsonWriter::unsigned_integer(uint64_t v) {
  separate();
  char* out = room(kNumberChars);
  used_ += static_cast<size_t>(std::to_chars(out, out + kNumberChars, v).ptr - out);
  return *this;
}

JsonWriter& JsonWriter::number(double v) {
  if (!is_finite(v)) return string(shortest(v));
  separate();
  char* out = room(kNumberChars);
  used_ += static_cast<size_t>(write_shortest(out, v) - out);
  return *this;
}

JsonWriter& JsonWriter::number(float v) {
  if (!is_finite(v)) return string(shortest(v));
  separate();
  char* out = room(kNumberChars);
  used_ += static_cast<size_t>(write_shortest(out, v) - out);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool v) { return raw(v ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  put(json);
  return *this;
}

}  // namespace rlxc
