// Streaming JSON writer: artefacts of large graphs never exist as a tree in memory.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/foreign_text.h"

namespace rlxc {

class OutputFile;

// Block: one member or item per line, indented by one space per level. Line: the container and its contents on one line. Arrays
// in Block with items in Line diff and grep well.
enum class JsonLayout : uint8_t { Block, Line };

// Writes members and items in call order. The caller ensures a valid structure (a key before each member value, matching ends);
// debug builds assert it. Ill-formed UTF-8 becomes U+FFFD, so the output is always valid. Numbers are the shortest that read
// back; infinities and NaN are the strings "inf", "-inf", "nan". OutputFile::ok reports write failures.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out);
  explicit JsonWriter(OutputFile& out);
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;
  ~JsonWriter();  // flushes

  JsonWriter& begin_object(JsonLayout layout = JsonLayout::Block) { return begin('{', layout); }
  JsonWriter& begin_array(JsonLayout layout = JsonLayout::Block) { return begin('[', layout); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& end_array() { return end(']'); }
  JsonWriter& key(std::string_view);
  // A literal needs no escapes.
  template <size_t size>
  JsonWriter& key(const char (&literal)[size]) {
    return plain_key({literal, size - 1});
  }

  JsonWriter& string(std::string_view);
  JsonWriter& string(const ForeignText& s) { return string(s.bytes()); }
  JsonWriter& integer(int64_t);
  JsonWriter& unsigned_integer(uint64_t);
  JsonWriter& number(double);
  JsonWriter& number(float);
  JsonWriter& boolean(bool);
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);  // one value, written verbatim

  // Ends the document with a newline and flushes. Not called for incomplete documents.
  void finish();
  void flush();

 private:
  struct Level {
    JsonLayout layout;
    bool empty;
  };

  JsonWriter& plain_key(std::string_view);
  JsonWriter& begin(char open, JsonLayout);
  JsonWriter& end(char close);
  void separate();  // writes commas and line breaks between values
  void new_line(size_t indent);
  void put(char c) {
    *room(1) = c;
    ++used_;
  }
  void put(std::string_view);
  void quoted(std::string_view);
  void escaped(char);
  char* room(size_t n) {  // space for n bytes, n <= kBuffer
    if (kBuffer - used_ < n) flush();
    return buffer_.get() + used_;
  }

  static constexpr size_t kBuffer = 64 * 1024;
  std::string* text_ = nullptr;
  OutputFile* file_ = nullptr;
  std::unique_ptr<char[]> buffer_;
  size_t used_ = 0;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace rlxc
