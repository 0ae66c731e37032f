#include "report/table.h"

#include <algorithm>

#include "support/text.h"

namespace rlxc::report {

void Table::print(std::string* out) const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows_) {
    *out += "  " + row[0] + std::string(widths[0] - row[0].size(), ' ');
    for (size_t i = 1; i < widths.size(); ++i) *out += "  " + std::string(widths[i] - row[i].size(), ' ') + row[i];
    while (out->ends_with(' ')) out->pop_back();
    *out += '\n';
  }
}

std::string one_line(std::string_view s) {
  std::string_view rest = s;
  while (!rest.empty()) {
    const int step = utf8_step(rest);
    if (step < 0 || static_cast<unsigned char>(rest.front()) < 0x20 || rest.front() == 0x7F) return quote(s);
    rest.remove_prefix(static_cast<size_t>(step));
  }
  return std::string(s);
}

}  // namespace rlxc::report
