// Regular expressions in the syntax of RE2 without flags, matched against whole strings in time O(pattern * string): the set of
// states that a Thompson automaton may be in is moved along the string (Thompson 1968; Cox, "Regular Expression Matching Can Be
// Simple And Fast", 2007). No back references and no look-around, which no such automaton has.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rlxc::eval {

class Pattern {
 public:
  // nullopt with a message for what is malformed, not supported, or too large (more than 100,000 states).
  static std::optional<Pattern> parse(std::string_view text, std::string* message);
  bool matches(std::string_view s) const;  // all of s
  size_t size() const { return program_.size(); }

 private:
  friend class PatternParser;
  enum class Step : uint8_t { Set, Split, Jump, Begin, End, Word, NotWord };
  struct Range {
    uint32_t first, last;
  };
  // Targets are relative, so that pieces of a program can be moved and repeated.
  struct Instruction {
    Step step;
    int32_t a = 0, b = 0;  // Split: both targets; Jump: a; Set: the set
  };
  struct Set {
    bool negated = false;
    std::vector<Range> ranges;
  };

  std::vector<Instruction> program_;
  std::vector<Set> sets_;
};

}  // namespace rlxc::eval
