#include "eval/pattern.h"

#include <algorithm>
#include <utility>

namespace rlxc::eval {
namespace {

constexpr size_t kMaxStates = 100'000;
constexpr int kMaxGroupDepth = 200;  // of nested groups
constexpr uint32_t kLastPoint = 0x10FFFF;

// Removes and returns the code point at the front of s (not empty). A byte that starts none stands for itself.
uint32_t take_point(std::string_view* s) {
  const auto lead = static_cast<unsigned char>((*s)[0]);
  const size_t more = lead >= 0xF0 && lead < 0xF8 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  uint32_t point = more == 0 ? lead : lead & (0x3Fu >> more);
  size_t used = 1;
  for (; used <= more && used < s->size() && ((*s)[used] & 0xC0) == 0x80; ++used) point = point << 6 | ((*s)[used] & 0x3F);
  if (used != more + 1) point = lead, used = 1;
  s->remove_prefix(used);
  return point;
}

bool is_word(uint32_t p) { return (p >= '0' && p <= '9') || (p >= 'a' && p <= 'z') || (p >= 'A' && p <= 'Z') || p == '_'; }

}  // namespace

// alternatives := sequence ('|' sequence)*; sequence := (atom repeat?)*. Code is appended to the program.
class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : rest_(text) {}

  Pattern pattern;
  std::string error;

  bool parse() {
    if (!alternatives(0)) return false;
    return rest_.empty() || fail("an unmatched ')'");
  }

 private:
  using Step = Pattern::Step;
  using Instruction = Pattern::Instruction;
  using Range = Pattern::Range;

  bool fail(std::string message) { return error = std::move(message), false; }
  bool take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::vector<Instruction>& code() { return pattern.program_; }
  int32_t length_from(size_t start) { return static_cast<int32_t>(code().size() - start); }
  void insert(size_t at, Instruction i) { code().insert(code().begin() + static_cast<std::ptrdiff_t>(at), i); }

  bool alternatives(int depth) {
    if (depth > kMaxGroupDepth) return fail("groups are nested too deep");
    std::vector<size_t> jumps;
    for (;;) {
      const size_t start = code().size();
      if (!sequence(depth)) return false;
      if (!take('|')) break;
      insert(start, {Step::Split, 1, length_from(start) + 2});
      jumps.push_back(code().size());
      code().push_back({Step::Jump});
    }
    for (size_t j : jumps) code()[j].a = length_from(j);
    return true;
  }

  bool sequence(int depth) {
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
      const size_t start = code().size();
      if (!atom(depth) || !repeats(start)) return false;
      if (code().size() > kMaxStates) return fail("it is too large");
    }
    return true;
  }

  bool repeats(size_t start) {
    int64_t low = 0, high = -1;
    while (counts(&low, &high)) {
      take('?');  // lazy repeat, equivalent for whole strings
      const std::vector<Instruction> piece(code().begin() + static_cast<std::ptrdiff_t>(start), code().end());
      if (low > 1000 || high > 1000) return fail("it repeats more than 1000 times");
      const auto copies = static_cast<size_t>(std::max({low, high, int64_t{1}}));
      if (piece.size() * copies > kMaxStates) return fail("it is too large");
      code().resize(start);
      const auto n = static_cast<int32_t>(piece.size());
      const auto append = [&] { code().insert(code().end(), piece.begin(), piece.end()); };
      for (int64_t i = 0; i < low; ++i) append();
      for (int64_t i = low; i < high; ++i) code().push_back({Step::Split, 1, n + 1}), append();
      if (high < 0) {
        code().push_back({Step::Split, 1, n + 2});
        append();
        code().push_back({Step::Jump, -(n + 1)});
      }
    }
    return error.empty();
  }

  // `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}`; high -1: unbounded. Any other brace is a literal.
  bool counts(int64_t* low, int64_t* high) {
    if (take('*')) return *low = 0, *high = -1, true;
    if (take('+')) return *low = 1, *high = -1, true;
    if (take('?')) return *low = 0, *high = 1, true;
    const std::string_view before = rest_;
    if (!take('{')) return false;
    if (number(low)) {
      *high = *low;
      if (take(',') && !number(high)) *high = -1;
      if (take('}')) return *high < 0 || *high >= *low || fail("a repetition with its bounds swapped");
    }
    rest_ = before;
    return false;
  }
  bool number(int64_t* out) {
    const size_t before = rest_.size();
    for (*out = 0; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1))
      *out = std::min<int64_t>(*out * 10 + (rest_[0] - '0'), 100'000);
    return rest_.size() < before;
  }

  bool atom(int depth) {
    const char c = rest_[0];
    if (c == '*' || c == '+' || c == '?') return fail("nothing to repeat");
    if (take('(')) {
      if (take('?')) {
        if (take('P') && !(!rest_.empty() && rest_[0] == '<')) return fail("a group of unknown kind");
        if (take('<')) {
          if (rest_.starts_with("=") || rest_.starts_with("!")) return fail("look-around is not supported");
          const size_t end = rest_.find('>');
          if (end == rest_.npos) return fail("the name of a group has no end");
          rest_.remove_prefix(end + 1);
        } else if (!take(':')) {
          return fail("flags and look-around are not supported");
        }
      }
      if (!alternatives(depth + 1)) return false;
      return take(')') || fail("an unmatched '('");
    }
    if (take('^')) return emit(Step::Begin);
    if (take('$')) return emit(Step::End);
    if (take('.')) return emit({true, {{'\n', '\n'}}});
    if (take('[')) return set();
    if (rest_[0] == '\\' && rest_.size() > 1) {
      switch (rest_[1]) {
        case 'A': return rest_.remove_prefix(2), emit(Step::Begin);
        case 'z': return rest_.remove_prefix(2), emit(Step::End);
        case 'b': return rest_.remove_prefix(2), emit(Step::Word);
        case 'B': return rest_.remove_prefix(2), emit(Step::NotWord);
        default: break;
      }
    }
    Pattern::Set s;
    return element(&s) && emit(std::move(s));
  }

  bool emit(Step step) { return code().push_back({step}), true; }
  bool emit(Pattern::Set s) {
    code().push_back({Step::Set, static_cast<int32_t>(pattern.sets_.size())});
    pattern.sets_.push_back(std::move(s));
    return true;
  }

  bool set() {
    Pattern::Set s;
    s.negated = take('^');
    for (bool first = true; first || !take(']'); first = false) {
      if (rest_.empty()) return fail("an unmatched '['");
      if (rest_.starts_with("[:")) return fail("named classes are not supported");
      const size_t count = s.ranges.size();
      if (!element(&s)) return false;
      const bool one = s.ranges.size() == count + 1 && s.ranges.back().first == s.ranges.back().last;
      if (!one || rest_.size() < 2 || rest_[0] != '-' || rest_[1] == ']') continue;
      rest_.remove_prefix(1);
      Pattern::Set end;
      if (!element(&end)) return false;
      if (end.ranges.size() != 1 || end.ranges[0].last < s.ranges.back().first) return fail("a range of characters is empty");
      s.ranges.back().last = end.ranges[0].last;
    }
    return emit(std::move(s));
  }

  // One character, or the class of an escape.
  bool element(Pattern::Set* s) {
    if (!take('\\')) {
      const uint32_t p = take_point(&rest_);
      return s->ranges.push_back({p, p}), true;
    }
    if (rest_.empty()) return fail("it ends in a backslash");
    static constexpr std::string_view kNames = "nrtfva", kValues = "\n\r\t\f\v\a";
    const uint32_t p = take_point(&rest_);
    switch (p) {
      case 'd': return add(s, {{'0', '9'}});
      case 'D': return add(s, {{0, '0' - 1}, {'9' + 1, kLastPoint}});
      case 'w': return add(s, {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
      case 'W': return add(s, {{0, '0' - 1}, {'9' + 1, 'A' - 1}, {'Z' + 1, '_' - 1}, {'_' + 1, 'a' - 1}, {'z' + 1, kLastPoint}});
      case 's': return add(s, {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}});
      case 'S': return add(s, {{0, '\t' - 1}, {'\v', '\v'}, {'\r' + 1, ' ' - 1}, {' ' + 1, kLastPoint}});
      default: break;
    }
    if (const size_t at = p < 128 ? kNames.find(static_cast<char>(p)) : kNames.npos; at != kNames.npos)
      return add(s, {{static_cast<uint32_t>(kValues[at]), static_cast<uint32_t>(kValues[at])}});
    if (is_word(p)) return fail("the escape \\" + std::string(1, static_cast<char>(p)) + " is not supported");
    return add(s, {{p, p}});
  }
  bool add(Pattern::Set* s, std::initializer_list<Range> r) { return s->ranges.insert(s->ranges.end(), r), true; }

  std::string_view rest_;
};

std::optional<Pattern> Pattern::parse(std::string_view text, std::string* message) {
  PatternParser p(text);
  if (!p.parse()) return *message = std::move(p.error), std::nullopt;
  return std::move(p.pattern);
}

bool Pattern::matches(std::string_view s) const {
  std::vector<size_t> now, next, stack;
  std::vector<size_t> seen(program_.size() + 1, 0);  // by state: position + 1 at which it was last entered
  bool accepted = false;
  size_t position = 0;
  uint32_t before = 0;
  // Enters a state and all states reachable without consuming a character.
  const auto enter = [&](std::vector<size_t>* states, size_t state) {
    const bool at_end = s.empty();
    std::string_view peek = s;
    const bool border = (position > 0 && is_word(before)) != (!at_end && is_word(take_point(&peek)));
    stack.assign(1, state);
    while (!stack.empty()) {
      const size_t at = stack.back();
      stack.pop_back();
      if (std::exchange(seen[at], position + 1) == position + 1) continue;
      if (at == program_.size()) {
        accepted = true;
        continue;
      }
      const Instruction& i = program_[at];
      const auto go = [&](int32_t by) { stack.push_back(at + static_cast<size_t>(static_cast<int64_t>(by))); };
      switch (i.step) {
        case Step::Set: states->push_back(at); break;
        case Step::Split: go(i.b), go(i.a); break;
        case Step::Jump: go(i.a); break;
        case Step::Begin: position == 0 ? go(1) : void(); break;
        case Step::End: at_end ? go(1) : void(); break;
        case Step::Word: border ? go(1) : void(); break;
        case Step::NotWord: border ? void() : go(1); break;
      }
    }
  };
  enter(&now, 0);
  while (!s.empty() && !now.empty()) {
    accepted = false;
    before = take_point(&s);
    ++position;
    next.clear();
    for (size_t at : now) {
      const Set& set = sets_[static_cast<size_t>(program_[at].a)];
      const bool in = std::ranges::any_of(set.ranges, [&](Range r) { return before >= r.first && before <= r.last; });
      if (in != set.negated) enter(&next, at + 1);
    }
    now.swap(next);
  }
  return accepted && s.empty();
}

}  // namespace rlxc::eval
