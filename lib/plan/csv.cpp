#include "plan/csv.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "support/diagnostics.h"
#include "support/foreign_text.h"
#include "support/parse_number.h"

namespace rlxc::plan {
namespace {

constexpr std::array<std::string_view, 5> kColumns = {"id", "lower", "upper", "size", "alignment"};
constexpr size_t kRequired = 4;
constexpr size_t kAbsent = ~size_t{0};

std::string_view trim(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\r");
  return first == s.npos ? s.substr(0, 0) : s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

void split(std::string_view line, std::vector<std::string_view>* fields) {
  fields->clear();
  for (size_t begin = 0;;) {
    const size_t comma = line.find(',', begin);
    fields->push_back(trim(line.substr(begin, comma - begin)));
    if (comma == line.npos) return;
    begin = comma + 1;
  }
}

// Indices of texts, by open addressing: a table of millions of texts misses the cache once for a text.
class TextIndex {
 public:
  explicit TextIndex(const std::vector<std::string_view>& texts)
      : texts_(texts), slots_(std::bit_ceil(2 * texts.size() + 1), kFree), mask_(slots_.size() - 1) {}

  // Returns the index of an equal text, or inserts `i` and returns it.
  size_t insert(uint32_t i) {
    const uint64_t hash = std::hash<std::string_view>()(texts_[i]), tag = hash >> 32 << 32;
    for (uint64_t at = hash & mask_;; at = (at + 1) & mask_) {
      uint64_t& slot = slots_[at];
      if (slot == kFree) {
        slot = tag | i;
        return i;
      }
      const auto known = static_cast<uint32_t>(slot);
      if ((slot ^ tag) >> 32 == 0 && texts_[known] == texts_[i]) return known;
    }
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  const std::vector<std::string_view>& texts_;
  std::vector<uint64_t> slots_;  // upper half of the hash, index
  uint64_t mask_;
};

class Reader {
 public:
  Reader(BufferTable* table, Diagnostics& diagnostics) : table_(*table), diagnostics_(diagnostics) {}

  bool header(std::string_view line) {
    split(line, &fields_);
    at_.fill(kAbsent);
    for (size_t c = 0; c < kColumns.size(); ++c) {
      const auto it = std::find(fields_.begin(), fields_.end(), kColumns[c]);
      if (it != fields_.end()) at_[c] = it - fields_.begin();
      else if (c < kRequired)
        error("the header has no column \"" + std::string(kColumns[c]) + "\"", "the first line is `id,lower,upper,size`");
    }
    width_ = fields_.size();
    meanings_.assign(width_, kAbsent);
    for (size_t c = 0; c < kColumns.size(); ++c)
      if (at_[c] != kAbsent) meanings_[at_[c]] = c;
    return std::all_of(at_.begin(), at_.begin() + kRequired, [](size_t c) { return c != kAbsent; });
  }

  // Reads a row whose fields are digits and plain ids, without spaces, and sets *at behind its newline. Returns false, with *at
  // unchanged, if it is another or a malformed one.
  bool plain_row(const char** at, const char* end) {
    const char* p = *at;
    Buffer b;
    b.align = 1;
    std::string_view id;
    for (size_t column = 0; column < width_; ++column) {
      const char* const begin = p;
      const size_t meaning = meanings_[column];
      if (meaning == 0 || meaning == kAbsent) {
        while (p < end && *p != ',' && *p != '\n') {
          if (*p == ' ' || *p == '\t' || *p == '\r') return false;
          ++p;
        }
        if (meaning == 0) id = {begin, static_cast<size_t>(p - begin)};
      } else {
        constexpr int kDigits = 18;  // whose numbers fit
        uint64_t number = 0;
        for (; p < end && *p >= '0' && *p <= '9'; ++p) number = number * 10 + static_cast<uint64_t>(*p - '0');
        if (p == begin || p - begin > kDigits) return false;
        if (meaning == 1) b.start = static_cast<int64_t>(number);
        else if (meaning == 2) b.end = static_cast<int64_t>(number);
        else (meaning == 3 ? b.size : b.align) = number;
      }
      if (column + 1 == width_) break;
      if (p == end || *p != ',') return false;
      ++p;
    }
    if (end - p > 1 && *p == '\r' && p[1] == '\n') ++p;
    if (p < end && *p++ != '\n') return false;
    if (b.end < b.start || b.align == 0) return false;
    add(id, b);
    *at = p;
    return true;
  }

  void row(std::string_view line) {
    split(line, &fields_);
    if (fields_.size() != width_)
      return error(std::to_string(fields_.size()) + " fields, the header has " + std::to_string(width_));
    Buffer b;
    b.align = 1;
    bool good = number(1, &b.start);
    good = number(2, &b.end) && good;
    good = number(3, &b.size) && good;
    good = (at_[4] == kAbsent || number(4, &b.align)) && good;
    if (!good) return;
    if (b.end < b.start) return error("upper " + std::to_string(b.end) + " is below lower " + std::to_string(b.start));
    if (b.align == 0) return error("alignment is 0, must be >= 1");
    add(fields_[at_[0]], b);
  }

  // Ids that ascend, by length first, differ. Others are looked up in a table.
  void check_ids(std::string_view text) {
    const auto& ids = table_.ids;
    const auto ascends = [](std::string_view a, std::string_view b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    };
    if (std::ranges::adjacent_find(ids, std::not_fn(ascends)) == ids.end()) return;
    TextIndex known(ids);
    std::vector<std::pair<size_t, size_t>> repeated;  // id, and the equal one before it
    for (uint32_t i = 0; i < ids.size(); ++i)
      if (const size_t first = known.insert(i); first != i) repeated.emplace_back(i, first);
    if (repeated.empty()) return;
    std::vector<size_t> lines(ids.size());
    const char* at = text.data();
    line_ = 1;
    for (size_t i = 0; i < ids.size(); ++i) {
      line_ += static_cast<size_t>(std::count(at, ids[i].data(), '\n'));
      at = ids[i].data();
      lines[i] = line_;
    }
    for (const auto& [i, first] : repeated) {
      line_ = lines[i];
      error("id " + ForeignText(ids[i]).quoted() + " was already used in line " + std::to_string(lines[first]));
    }
  }

  void next_line() { ++line_; }
  void error(std::string message, std::string help = {}) {
    diagnostics_.error(Code::BadBuffers, std::move(message), "line " + std::to_string(line_), std::move(help));
  }

 private:
  void add(std::string_view id, const Buffer& b) {
    table_.ids.push_back(id);
    table_.problem.buffers.push_back(b);
  }

  template <class T>
  bool number(size_t column, T* out) {
    const std::string_view field = fields_[at_[column]];
    if (parse_number(field, out)) return true;
    error(std::string(kColumns[column]) + " is " + ForeignText(field.substr(0, 40)).quoted() + ", must be an integer" +
          (std::is_signed_v<T> ? "" : " >= 0") + " of 64 bits");
    return false;
  }

  BufferTable& table_;
  Diagnostics& diagnostics_;
  std::array<size_t, kColumns.size()> at_{};
  std::vector<std::string_view> fields_;  // of the current line
  std::vector<size_t> meanings_;          // by column of the file: index in kColumns, or kAbsent
  size_t width_ = 0;
  size_t line_ = 0;
};

}  // namespace

bool read_csv(std::string_view text, BufferTable* table, Diagnostics& diagnostics) {
  const size_t before = diagnostics.errors();
  *table = {};
  constexpr size_t kShortestRow = 8;  // "a,0,1,8" and a newline
  const size_t rows = std::min<size_t>(std::ranges::count(text, '\n') + 1, text.size() / kShortestRow + 1);
  table->ids.reserve(rows);
  table->problem.buffers.reserve(rows);
  Reader reader(table, diagnostics);
  bool header = false;
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    reader.next_line();
    if (header && reader.plain_row(&at, end)) continue;
    const char* const newline = std::find(at, end, '\n');
    const std::string_view line = trim({at, newline});
    at = newline == end ? end : newline + 1;
    if (line.empty()) continue;
    if (header) reader.row(line);
    else if (!(header = reader.header(line))) return false;
  }
  reader.check_ids(text);
  if (!header) reader.error("the file is empty", "the first line is `id,lower,upper,size`");
  return diagnostics.errors() == before && check(table->problem, diagnostics);
}

void write_csv(const BufferTable& table, const std::vector<uint64_t>& offsets,
               const std::function<void(std::string_view)>& write) {
  constexpr size_t kPiece = 1 << 16, kNumbers = 4 * 21 + 1;  // a comma and 20 digits each, and a newline
  std::string out = "id,lower,upper,size,offset\n";
  size_t used = out.size();
  out.resize(kPiece);
  for (size_t i = 0; i < table.ids.size(); ++i) {
    const std::string_view id = table.ids[i];
    if (out.size() - used < id.size() + kNumbers) {
      write({out.data(), used});
      used = 0;
      if (out.size() < id.size() + kNumbers) out.resize(id.size() + kNumbers);
    }
    char* p = std::copy(id.begin(), id.end(), out.data() + used);
    const auto number = [&](auto n) {
      *p++ = ',';
      p = std::to_chars(p, p + 20, n).ptr;
    };
    const Buffer& b = table.problem.buffers[i];
    number(b.start);
    number(b.end);
    number(b.size);
    number(offsets[i]);
    *p++ = '\n';
    used = static_cast<size_t>(p - out.data());
  }
  write({out.data(), used});
}

}  // namespace rlxc::plan
