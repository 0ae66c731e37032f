#include "plan/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "support/diagnostics.h"
#include "support/foreign_text.h"

namespace rlxc::plan {
namespace {

constexpr std::array<std::string_view, 5> kColumns = {"id", "lower", "upper", "size", "alignment"};
constexpr size_t kRequired = 4;
constexpr size_t kAbsent = ~size_t{0};

std::string_view trim(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\r");
  return first == s.npos ? std::string_view{} : s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
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

template <class T>
bool parse(std::string_view s, T* out) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  return error == std::errc{} && end == s.data() + s.size();
}

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
    return std::all_of(at_.begin(), at_.begin() + kRequired, [](size_t c) { return c != kAbsent; });
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
    table_.ids.push_back(fields_[at_[0]]);
    lines_.push_back(line_);
    table_.problem.buffers.push_back(b);
  }

  // Ids that ascend, by length first, differ. Others are looked up in a table.
  void check_ids() {
    const auto& ids = table_.ids;
    const auto ascends = [](std::string_view a, std::string_view b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    };
    if (std::ranges::adjacent_find(ids, std::not_fn(ascends)) == ids.end()) return;
    std::unordered_map<std::string_view, size_t> first;
    first.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto [known, fresh] = first.emplace(ids[i], lines_[i]);
      line_ = lines_[i];
      if (!fresh) error("id " + ForeignText(ids[i]).quoted() + " was already used in line " + std::to_string(known->second));
    }
  }

  void next_line() { ++line_; }
  void error(std::string message, std::string help = {}) {
    diagnostics_.error(Code::BadBuffers, std::move(message), "line " + std::to_string(line_), std::move(help));
  }

 private:
  template <class T>
  bool number(size_t column, T* out) {
    const std::string_view field = fields_[at_[column]];
    if (parse(field, out)) return true;
    error(std::string(kColumns[column]) + " is " + ForeignText(field.substr(0, 40)).quoted() + ", must be an integer" +
          (std::is_signed_v<T> ? "" : " >= 0") + " of 64 bits");
    return false;
  }

  BufferTable& table_;
  Diagnostics& diagnostics_;
  std::array<size_t, kColumns.size()> at_{};
  std::vector<std::string_view> fields_;  // of the current line
  std::vector<size_t> lines_;             // by buffer
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
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trim(text.substr(begin, newline - begin));
    begin = newline + 1;
    reader.next_line();
    if (line.empty()) continue;
    if (header) reader.row(line);
    else if (!(header = reader.header(line))) return false;
  }
  reader.check_ids();
  if (!header) reader.error("the file is empty", "the first line is `id,lower,upper,size`");
  return diagnostics.errors() == before && check(table->problem, diagnostics);
}

void write_csv(const BufferTable& table, const std::vector<uint64_t>& offsets,
               const std::function<void(std::string_view)>& write) {
  constexpr size_t kPiece = 1 << 16;
  std::string out = "id,lower,upper,size,offset\n";
  const auto number = [&](auto n) {
    char digits[24];
    out += ',';
    out.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
  };
  for (size_t i = 0; i < table.ids.size(); ++i) {
    const Buffer& b = table.problem.buffers[i];
    out += table.ids[i];
    number(b.start);
    number(b.end);
    number(b.size);
    number(offsets[i]);
    out += '\n';
    if (out.size() < kPiece) continue;
    write(out);
    out.clear();
  }
  write(out);
}

}  // namespace rlxc::plan
