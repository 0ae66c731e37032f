// A place in the text of a model, for the readers of its text forms. '#' begins a comment that ends with the line.
#pragma once
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "support/parse_number.h"

namespace rlxc::onnx_import {

class TextCursor {
 public:
  const std::string& error() const { return error_; }
  size_t line() const { return line_; }

 protected:
  explicit TextCursor(std::string_view text) : rest_(text) {}

  bool fail(std::string reason) {  // the first reason stays
    if (error_.empty()) error_ = std::move(reason);
    return false;
  }
  void drop(size_t n) {
    line_ += static_cast<size_t>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(n), '\n'));
    rest_.remove_prefix(n);
  }
  void skip() {
    while (!rest_.empty()) {
      if (rest_.front() == '#') drop(std::min(rest_.find('\n'), rest_.size()));
      else if (std::isspace(static_cast<unsigned char>(rest_.front())) != 0) drop(1);
      else return;
    }
  }
  bool at(char c) {
    skip();
    return !rest_.empty() && rest_.front() == c;
  }
  bool accept(char c) {
    if (!at(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Letters, digits and the signs of numbers.
  std::string_view word() {
    skip();
    const auto inside = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+';
    };
    const auto n = static_cast<size_t>(std::ranges::find_if_not(rest_, inside) - rest_.begin());
    const std::string_view w = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return w;
  }
  // An integer, also one of 64 bits without a sign.
  static bool integer(std::string_view w, int64_t* v) {
    uint64_t large = 0;
    if (parse_number(w, v)) return true;
    if (!parse_number(w, &large)) return false;
    *v = static_cast<int64_t>(large);
    return true;
  }

  std::string_view rest_;

 private:
  size_t line_ = 1;
  std::string error_;
};

}  // namespace rlxc::onnx_import
