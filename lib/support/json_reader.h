// Streaming JSON reader over memory, without a tree, for graphs of a million nodes and hostile files. The caller requests the
// value types it expects; the first error stops reading and is stored with its position.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/foreign_text.h"

namespace rlxc {

// Strict RFC 8259: one value, nothing after it, no comments, checked UTF-8, no duplicate keys. Integers are exact or rejected.
// Nesting is at most kMaxDepth, also in skipped values. O(bytes).
//
//   if (r.begin_object())
//     for (std::string_view key; r.next_key(&key);)
//       if (key == "size") r.integer(&size);
//       else r.skip();
//   r.finish();
class JsonReader {
 public:
  static constexpr size_t kMaxDepth = 256;
  enum class Kind : uint8_t { Object, Array, String, Number, Bool, Null, Bad };

  explicit JsonReader(std::string_view text) : text_(text) {}

  Kind peek();  // kind of the next value, without consuming it

  bool begin_object();
  bool next_key(std::string_view* key);  // false at the end of the object, which it consumes, and on errors
  bool begin_array();
  bool next_item();  // false at the end of the array, which it consumes, and on errors

  // Views are valid until the next string is read.
  bool string(std::string_view*);
  bool string(std::string*);
  bool string(ForeignText* out) {
    std::string_view text;
    if (!string(&text)) return false;
    *out = ForeignText(text);
    return true;
  }
  bool integer(int64_t*);
  bool unsigned_integer(uint64_t*);
  bool number(double*);  // also "inf", "-inf" and "nan" as strings
  bool boolean(bool*);
  bool null();
  bool skip();                  // skips any value
  bool raw(std::string_view*);  // text of any value
  bool finish();                // requires the end of the text

  bool ok() const { return error_.empty(); }
  bool fail(std::string message) { return fail(std::move(message), at_); }  // returns false; keeps the first error
  bool fail(std::string message, size_t at);
  const std::string& error() const { return error_; }
  size_t error_at() const { return error_at_; }  // byte offset
  size_t at() { return space(), at_; }           // start of the next value

 private:
  struct Level {
    bool object = false, first = true;
    std::vector<std::string_view> keys;  // as written, with escapes
    std::vector<uint32_t> table;         // hash table of keys, once there are many
  };

  void space();
  bool begin(char open);
  bool end_or_comma(char close, bool* done);
  bool scan_string(std::string_view* inside, bool* escaped);
  bool unescape(std::string_view inside, size_t at, std::string* out);
  bool scan_number(std::string_view*);
  bool literal(std::string_view word);
  bool new_key(Level&, std::string_view key, size_t at);
  bool expected(const char* what);

  std::string_view text_;
  size_t at_ = 0, depth_ = 0;
  std::vector<Level> levels_;  // never shrinks; the first depth_ are open
  std::string scratch_, error_;
  size_t error_at_ = 0;
};

// Line and column, both from 1, of byte offsets. Finds line starts once; O(log lines) per query.
class LineIndex {
 public:
  explicit LineIndex(std::string_view text) : text_(text) {}
  std::string place(size_t at);  // "line 3 column 7"

 private:
  std::string_view text_;
  std::vector<size_t> starts_;
};

}  // namespace rlxc
