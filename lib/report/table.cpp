#include "report/table.h"

#include <algorithm>
#include <cstdio>

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

std::string fixed(double v, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, v);
  return buffer;
}

}  // namespace rlxc::report
