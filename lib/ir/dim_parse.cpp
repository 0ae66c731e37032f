// Parses the text form of dims: sums of products of numbers, symbols, "quoted symbols", named sizes and fn(a,b).
#include <algorithm>
#include <cctype>
#include <charconv>

#include "ir/dim.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr int kMaxDepth = DimTable::kMaxWeight + 16;  // of texts of dims, and what people write

class DimParser {
 public:
  DimParser(DimTable& table, std::string_view s) : table_(table), s_(s) {}

  std::optional<Dim> run() {
    auto d = sum(0);
    skip();
    return d && s_.empty() ? d : std::nullopt;
  }

 private:
  void skip() {
    while (!s_.empty() && s_.front() == ' ') s_.remove_prefix(1);
  }
  bool eat(char c) {
    skip();
    if (s_.empty() || s_.front() != c) return false;
    s_.remove_prefix(1);
    return true;
  }

  std::optional<Dim> sum(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    bool negative = eat('-');
    Dim total(0);
    for (;;) {
      auto t = term(depth);
      if (!t) return std::nullopt;
      total = negative ? table_.sub(total, *t) : table_.add(total, *t);
      if (eat('+')) negative = false;
      else if (eat('-')) negative = true;
      else return total;
    }
  }

  std::optional<Dim> term(int depth) {
    auto product = factor(depth);
    while (product && eat('*')) {
      auto f = factor(depth);
      if (!f) return std::nullopt;
      product = table_.mul(*product, *f);
    }
    return product;
  }

  std::optional<Dim> factor(int depth) {
    skip();
    if (s_.empty()) return std::nullopt;
    if (eat('(')) {
      auto d = sum(depth + 1);
      return d && eat(')') ? d : std::nullopt;
    }
    if (s_.front() == '"') return quoted();
    if (s_.front() == '#') {
      const size_t n = std::min(s_.find_first_not_of("0123456789", 1), s_.size());
      const std::string_view name = s_.substr(0, n);
      s_.remove_prefix(n);
      return table_.size_named(name);
    }
    if (std::isdigit(static_cast<unsigned char>(s_.front()))) {
      int64_t v = 0;
      auto [end, error] = std::from_chars(s_.data(), s_.data() + s_.size(), v);
      if (error != std::errc{}) return std::nullopt;
      s_.remove_prefix(static_cast<size_t>(end - s_.data()));
      return Dim(v);
    }
    size_t n = 0;
    while (n < s_.size() && (std::isalnum(static_cast<unsigned char>(s_[n])) || s_[n] == '_' || s_[n] == '.')) ++n;
    if (n == 0) return std::nullopt;
    const std::string_view word = s_.substr(0, n);
    s_.remove_prefix(n);
    if (!eat('(')) return table_.symbol(word);
    auto a = sum(depth + 1);
    if (!a || !eat(',')) return std::nullopt;
    auto b = sum(depth + 1);
    if (!b || !eat(')')) return std::nullopt;
    if (word == "floordiv") return table_.floor_div(*a, *b);
    if (word == "mod") return table_.mod(*a, *b);
    if (word == "min") return table_.min(*a, *b);
    if (word == "max") return table_.max(*a, *b);
    return std::nullopt;
  }

  std::optional<Dim> quoted() {
    size_t i = 1;
    while (i < s_.size() && s_[i] != '"') i += s_[i] == '\\' ? 2 : 1;
    const auto name = unquote(s_.substr(0, i + 1));
    if (!name || name->empty()) return std::nullopt;
    s_.remove_prefix(i + 1);
    return table_.symbol(*name);
  }

  DimTable& table_;
  std::string_view s_;
};

}  // namespace

std::optional<Dim> DimTable::parse(std::string_view s) { return DimParser(*this, s).run(); }

}  // namespace rlxc
