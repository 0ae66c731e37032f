// rlxc explain: codes, reasons, patterns, passes and operations, each with an example. rlxc manual and rlxc completion.
#include <algorithm>
#include <iostream>

#include "backend/target_traits.h"
#include "commands/commands.h"
#include "ir/opkind.h"
#include "options/help.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "report/words.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

struct Example {
  std::string_view word;  // a number of a code, or a pass
  std::string_view text;
};

constexpr Example kCodeExamples[] = {
#define CODE_EXAMPLE(number, text) {#number, text},
#define PASS_EXAMPLE(pass, text)
#include "commands/examples.def"
#undef CODE_EXAMPLE
#undef PASS_EXAMPLE
};

constexpr Example kPassExamples[] = {
#define CODE_EXAMPLE(number, text)
#define PASS_EXAMPLE(pass, text) {#pass, text},
#include "commands/examples.def"
#undef CODE_EXAMPLE
#undef PASS_EXAMPLE
};

std::string_view example_of(std::span<const Example> table, std::string_view word) {
  const auto it = std::ranges::find(table, word, &Example::word);
  return it == table.end() ? std::string_view() : it->text;
}

void print_example(std::string_view text) {
  if (!text.empty()) std::cout << "  for example: " << text << '\n';
}

std::string lower_case(std::string s) {
  std::ranges::transform(s, s.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return s;
}

bool explain_code(const std::string& word) {
  Code code{};
  std::string text = word;
  if (text.starts_with("rlx")) text.replace(0, 3, "RLX");
  if (!code_from_text(text, &code)) return false;
  std::cout << code_text(code) << " (exit code " << static_cast<int>(exit_code(code)) << "): " << explain(code) << '\n';
  print_example(example_of(kCodeExamples, std::to_string(static_cast<int>(code))));
  return true;
}

bool explain_pattern(std::string_view word) {
  const auto patterns = report::pattern_words();
  const auto it = std::ranges::find(patterns, word, &report::PatternWord::name);
  if (it == patterns.end()) return false;
  std::cout << it->name << " (pattern of the pass " << it->pass << "): " << it->meaning << '\n';
  print_example(it->example);
  return true;
}

bool explain_reason(std::string_view word) {
  const auto reasons = report::reason_words();
  const auto it = std::ranges::find(reasons, word, &report::ReasonWord::code);
  if (it == reasons.end()) return false;
  std::cout << it->code << " (reason why a fusion is declined): " << it->meaning << '\n';
  if (!it->remedy.empty()) std::cout << "  " << it->remedy << '\n';
  std::cout << "  for example: fusion.txt lists the nodes under \"Declined\"; rlxc compile --assert 'fusion.declined.PATTERN."
            << it->code << "==0' guards against it\n";
  return true;
}

bool explain_pass(std::string_view word) {
  const PassInfo* pass = find_pass(word);
  if (!pass) return false;
  std::cout << pass->name << " (pass, " << pass->group << "): " << pass->doc << '\n';
  print_example(example_of(kPassExamples, word));
  for (const report::PatternWord& p : report::pattern_words())
    if (p.pass == word) print_example(p.example);
  std::cout << "  rlxc inspect model.onnx --after-each prints what it does; --disable-pass " << pass->name << " leaves it out\n";
  return true;
}

bool explain_op(std::string_view word) {
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (word != name(op) && word != lower_case(std::string(kind_name(op)))) continue;
    std::cout << kind_name(op) << " (operation): " << doc(op) << '\n';
    std::cout << "  rlxc list ops --matrix prints what is supported for it\n";
    return true;
  }
  return false;
}

std::vector<std::string> explained_words() {
  std::vector<std::string> words;
  for (Code c : all_codes()) words.push_back(code_text(c));
  for (const report::ReasonWord& r : report::reason_words()) words.emplace_back(r.code);
  for (const report::PatternWord& p : report::pattern_words()) words.emplace_back(p.name);
  for (const PassInfo& p : all_passes()) words.emplace_back(p.name);
  return words;
}

CompletionWords completion_words() {
  CompletionWords words;
  words["TARGET"].assign(target_names().begin(), target_names().end());
  for (const PassInfo& p : all_passes()) words["PASS"].emplace_back(p.name);
  for (const CommandInfo& c : kCommands) words["COMMAND"].emplace_back(c.name);
  for (const EmbeddedSchema& s : embedded_schemas()) words["SCHEMA"].emplace_back(s.name);
  words["WORD"] = explained_words();
  words["TYPE[:GROUP SIZE]"] = {"int8", "int4", "fp8-e4m3", "fp8-e5m2"};
  return words;
}

}  // namespace

ExitCode explain_command(const std::string& text, Terminal t) {
  const std::string word = lower_case(text);
  bool known = explain_code(word);
  for (const auto explain_as : {explain_pattern, explain_reason, explain_pass}) known |= explain_as(word);
  if (known || explain_op(word)) return ExitCode::Ok;
  Diagnostics d;
  const std::vector<std::string> words = explained_words();
  const std::vector<std::string_view> views(words.begin(), words.end());
  const auto close = closest(text, views);
  d.error(Code::BadFlag, "there is no code, reason, pattern, pass or operation " + quote(text), {},
          close ? "did you mean " + std::string(*close) + "?" : "rlxc list codes, reasons, patterns, passes or ops shows them");
  return print_diagnostics(d, t);
}

ExitCode manual_command(const std::string& command, Terminal t) {
  const CommandInfo* info = find_command(command);
  if (info || command.empty()) {
    std::cout << manual_page(info, version());
    return ExitCode::Ok;
  }
  Diagnostics d;
  std::vector<std::string_view> names;
  for (const CommandInfo& c : kCommands) names.push_back(c.name);
  const auto close = closest(command, names);
  d.error(Code::BadFlag, "there is no command " + quote(command), {},
          close ? "did you mean " + std::string(*close) + "?" : "rlxc --help lists them");
  return print_diagnostics(d, t);
}

ExitCode completion_command(const std::string& shell) {
  std::cout << completion_script(shell, completion_words());
  return ExitCode::Ok;
}

}  // namespace rlxc
