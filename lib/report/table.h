// Text tables with aligned columns.
#pragma once
#include <string>
#include <vector>

namespace rlxc::report {

// The first column is left-aligned, the others right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { add(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }  // one cell per column of the head
  void print(std::string* out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string fixed(double, int digits);  // so many digits after the point

}  // namespace rlxc::report
