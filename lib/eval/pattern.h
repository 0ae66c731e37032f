// Regular expressions in RE2 syntax without flags, matched against whole strings in O(pattern * string) by simulating a Thompson
// automaton (Thompson 1968; Cox, "Regular Expression Matching Can Be Simple And Fast", 2007). No back references, no look-around.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rlxc::eval {

class Pattern {
 public:
  // Returns nullopt with a message if the pattern is malformed, unsupported, or has more than 100,000 states.
  static std::optional<Pattern> parse(std::string_view text, std::string* message);
  bool matches(std::string_view s) const;  // all of s
  size_t size() const { return program_.size(); }

 private:
  friend class PatternParser;
  enum class Step : uint8_t { Set, Split, Jump, Begin, End, Word, NotWord };
  struct Range {
    uint32_t first, last;
  };
  // Targets are relative, so that parts of a program can be moved and repeated.
  struct Instruction {
    Step step;
    int32_t a = 0, b = 0;  // Split: both targets; Jump: a; Set: index of the set
  };
  struct Set {
    bool negated = false;
    std::vector<Range> ranges;
  };

  std::vector<Instruction> program_;
  std::vector<Set> sets_;
};

}  // namespace rlxc::eval
