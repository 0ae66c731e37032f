#include "ir/dim_postfix.h"

#include <algorithm>
#include <string_view>

#include "support/foreign_text.h"
#include "support/text.h"

namespace rlxc {
namespace {

// Parses the text of a Dim: sums of products of numbers, symbols (quoted unless plain names) and functions.
class DimPostfix {
 public:
  explicit DimPostfix(std::string_view text) : text_(text) { sum(); }
  std::vector<std::string> take() { return std::move(out_); }

 private:
  bool next(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void sum() {
    bool negative = next('-');
    product(negative);
    while ((negative = next('-')) || next('+')) {
      product(negative);
      out_.emplace_back("+");
    }
  }
  void product(bool negative) {
    factor();
    while (next('*')) {
      factor();
      out_.emplace_back("*");
    }
    if (negative) {
      out_.emplace_back("-1");
      out_.emplace_back("*");
    }
  }
  void factor() {
    const size_t begin = at_;
    if (next('"')) {
      while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
      ++at_;
      return out_.push_back("$" + unquote(text_.substr(begin, at_ - begin)).value_or(""));
    }
    while (at_ < text_.size() && std::string_view("+-*(),").find(text_[at_]) == std::string_view::npos) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (next('(')) {
      sum();
      next(',');
      sum();
      next(')');
      return out_.push_back(word);
    }
    out_.push_back(((word[0] >= '0' && word[0] <= '9') || word[0] == '#' ? "" : "$") + word);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> dim_postfix(const DimTable& table, Dim d) {
  const std::string text = table.text(d);
  return DimPostfix(text).take();
}

std::vector<std::string> terms_postfix(const DimTable& table, Dim d) {
  const std::string text = table.terms(d);
  return DimPostfix(text).take();
}

std::vector<std::string> definition_postfix(const DimTable& table, Dim d) {
  using Operator = DimTable::Operator;
  const auto [op, a, b] = table.definition_of(d);
  if (op == Operator::Terms) return terms_postfix(table, d);
  std::vector<std::string> out = dim_postfix(table, a), second = dim_postfix(table, b);
  out.insert(out.end(), std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()));
  switch (op) {
    case Operator::Subtract: out.insert(out.end(), {"-1", "*"}); [[fallthrough]];
    case Operator::Terms:
    case Operator::Add: out.emplace_back("+"); break;
    case Operator::Multiply: out.emplace_back("*"); break;
    case Operator::FloorDiv: out.emplace_back("floordiv"); break;
    case Operator::Mod: out.emplace_back("mod"); break;
    case Operator::Min: out.emplace_back("min"); break;
    case Operator::Max: out.emplace_back("max"); break;
  }
  return out;
}

std::optional<std::string> symbol_name(const DimTable& dims, Dim d) {
  if (d.is_static() || dims.weight(d) != 1) return std::nullopt;
  const auto items = dim_postfix(dims, d);
  return items.size() == 1 && items[0][0] == '$' ? std::optional(items[0].substr(1)) : std::nullopt;
}

std::string name_number(const DimTable& table, Dim d) { return table.text(d).substr(1); }

namespace {

std::string python(const std::vector<std::string>& postfix, const std::string& symbols, const std::string& before_named,
                   const std::string& after_named) {
  struct Part {
    std::string text;
    int depth = 0;  // of its parentheses
  };
  constexpr int kDeepest = 40;  // of 200 that Python's parser takes
  std::vector<Part> stack;
  std::string named;  // deep parts, each with a name
  int names = 0;
  for (const std::string& item : postfix) {
    const bool number = (item[0] >= '0' && item[0] <= '9') || (item[0] == '-' && item.size() > 1);
    if (number) {
      stack.push_back({item});
    } else if (item[0] == '#') {
      stack.push_back({before_named + item.substr(1) + after_named});
    } else if (item[0] == '$') {
      stack.push_back({symbols + "[" + ForeignText(std::string_view(item).substr(1)).python_string('\'') + "]"});
    } else {
      const Part b = std::move(stack.back());
      stack.pop_back();
      Part& a = stack.back();
      const bool call = item == "min" || item == "max";
      const std::string_view infix = item == "floordiv" ? " // " : item == "mod" ? " % " : item == "*" ? " * " : " + ";
      a.text = call ? item + "(" + a.text + ", " + b.text + ")" : "(" + a.text + std::string(infix) + b.text + ")";
      a.depth = 1 + std::max(a.depth, b.depth);
      if (a.depth < kDeepest) continue;
      const std::string name = "_" + std::to_string(names++);
      named += name + " := " + a.text + ", ";
      a = {name};
    }
  }
  return named.empty() ? stack.back().text : "[" + named + stack.back().text + "][-1]";
}

}  // namespace

std::string dim_python(const DimTable& table, Dim d, const std::string& symbols) {
  if (const auto v = table.constant_value(d)) return std::to_string(*v);
  return python(dim_postfix(table, d), symbols, "size(" + symbols + ", ", ")");
}

std::string definition_python(const DimTable& table, Dim d, const std::string& symbols, const std::string& named) {
  return python(definition_postfix(table, d), symbols, named + "[", "]");
}

}  // namespace rlxc
