#include "plan/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "support/diagnostics.h"

namespace rlxc::plan {
namespace {

constexpr std::array<std::string_view, 5> kColumns = {"id", "lower", "upper", "size", "alignment"};
constexpr size_t kRequired = 4;
constexpr size_t kAbsent = ~size_t{0};

std::string_view trim(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\r");
  return first == s.npos ? std::string_view{} : s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t begin = 0;;) {
    const size_t comma = line.find(',', begin);
    fields.push_back(trim(line.substr(begin, comma - begin)));
    if (comma == line.npos) return fields;
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
    const auto names = split(line);
    at_.fill(kAbsent);
    for (size_t c = 0; c < kColumns.size(); ++c) {
      const auto it = std::find(names.begin(), names.end(), kColumns[c]);
      if (it != names.end()) at_[c] = it - names.begin();
      else if (c < kRequired)
        error("the header has no column \"" + std::string(kColumns[c]) + "\"", "the first line is `id,lower,upper,size`");
    }
    width_ = names.size();
    return std::all_of(at_.begin(), at_.begin() + kRequired, [](size_t c) { return c != kAbsent; });
  }

  void row(std::string_view line) {
    const auto fields = split(line);
    if (fields.size() != width_)
      return error(std::to_string(fields.size()) + " fields, the header has " + std::to_string(width_));
    Buffer b;
    b.align = 1;
    bool good = number(fields, 1, &b.start);
    good = number(fields, 2, &b.end) && good;
    good = number(fields, 3, &b.size) && good;
    good = (at_[4] == kAbsent || number(fields, 4, &b.align)) && good;
    if (!good) return;
    if (b.end < b.start) return error("upper " + std::to_string(b.end) + " is below lower " + std::to_string(b.start));
    if (b.align == 0) return error("alignment is 0, must be >= 1");
    std::string id(fields[at_[0]]);
    const auto [known, fresh] = lines_.emplace(id, line_);
    if (!fresh) return error("id \"" + id + "\" was already used in line " + std::to_string(known->second));
    table_.ids.push_back(std::move(id));
    table_.problem.buffers.push_back(b);
  }

  void next_line() { ++line_; }
  void error(std::string message, std::string help = {}) {
    diagnostics_.error(Code::BadBuffers, std::move(message), "line " + std::to_string(line_), std::move(help));
  }

 private:
  template <class T>
  bool number(const std::vector<std::string_view>& fields, size_t column, T* out) {
    if (parse(fields[at_[column]], out)) return true;
    error(std::string(kColumns[column]) + " is \"" + std::string(fields[at_[column]].substr(0, 40)) + "\", must be an integer" +
          (std::is_signed_v<T> ? "" : " >= 0") + " of 64 bits");
    return false;
  }

  BufferTable& table_;
  Diagnostics& diagnostics_;
  std::array<size_t, kColumns.size()> at_{};
  std::unordered_map<std::string, size_t> lines_;
  size_t width_ = 0;
  size_t line_ = 0;
};

}  // namespace

bool read_csv(std::string_view text, BufferTable* table, Diagnostics& diagnostics) {
  const size_t before = diagnostics.errors();
  *table = {};
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
  if (!header) reader.error("the file is empty", "the first line is `id,lower,upper,size`");
  return diagnostics.errors() == before && check(table->problem, diagnostics);
}

std::string write_csv(const BufferTable& table, const std::vector<uint64_t>& offsets) {
  std::string out = "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < table.ids.size(); ++i) {
    const Buffer& b = table.problem.buffers[i];
    out += table.ids[i] + ',' + std::to_string(b.start) + ',' + std::to_string(b.end) + ',' + std::to_string(b.size) + ',' +
           std::to_string(offsets[i]) + '\n';
  }
  return out;
}

}  // namespace rlxc::plan
