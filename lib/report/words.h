// Explanations of the words in reports: reasons and patterns of fusion decisions (words.def).
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace rlxc::report {

struct ReasonWord {
  std::string_view code, meaning, remedy;  // remedy: may be empty
};
struct PatternWord {
  std::string_view name, pass, meaning, example;
};

std::span<const ReasonWord> reason_words();    // by code
std::span<const PatternWord> pattern_words();  // by name

}  // namespace rlxc::report
