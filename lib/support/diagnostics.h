// Errors as values: all problems of an input are collected and reported in one run, each with a stable code, its location and
// advice. The codes are in diagnostics.def.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rlxc {

enum class ExitCode : int {
  Ok = 0,
  Finding = 1,
  Usage = 2,
  Unreadable = 3,
  Invalid = 4,
  Unsupported = 5,
  Unwritable = 6,
  Limit = 7,
  NotCompared = 8,
  MissingTool = 9,
  Internal = 70
};

enum class Code : uint16_t {
#define CODE(number, name, exit, text) name = number,
#include "support/diagnostics.def"
#undef CODE
};

enum class Severity : uint8_t { Note, Warning, Error };

struct Diagnostic {
  Severity severity = Severity::Error;
  Code code = Code::Internal;
  std::string where;    // `node "/encoder/conv_3" (Conv, opset 11)`, `line 3 column 7`, or empty
  std::string message;  // `strides[0] is 0, must be >= 1`
  std::string help;     // advice, or empty
};

std::string_view explain(Code);  // from the table
ExitCode exit_code(Code);
std::string code_text(Code);                   // "RLX0214"
bool code_from_text(std::string_view, Code*);  // accepts "RLX0214" and "214"
const std::vector<Code>& all_codes();

// Collects the diagnostics of one input file. Not thread-safe. Stores at most `kMaxKept` errors or warnings per code and counts
// the rest. Drops repeated warnings.
class Diagnostics {
 public:
  static constexpr size_t kMaxKept = 100;

  explicit Diagnostics(std::string file = {}) : file_(std::move(file)) {}

  void error(Code, std::string message, std::string where = {}, std::string help = {});
  void warning(Code, std::string message, std::string where = {}, std::string help = {});
  void add(Diagnostic);
  void add(const Diagnostics&);  // those that are not here yet

  bool ok() const { return errors_ == 0; }
  size_t errors() const { return errors_; }
  ExitCode exit() const;  // exit code of the first error, or Ok
  const std::vector<Diagnostic>& items() const { return items_; }
  const std::string& file() const { return file_; }
  // One diagnostic after another: `model.onnx: error[RLX0214]: node ...: message` and `help:` lines. Prints at most `warnings`
  // warnings per code, or none for 0.
  std::string text(size_t warnings = kMaxKept) const;

 private:
  struct Count {
    Severity severity;
    Code code;
    size_t all;
  };
  bool has(const Diagnostic&) const;
  Count& count_of(Severity, Code);

  std::string file_;
  std::vector<Diagnostic> items_;
  std::vector<Count> counts_;
  size_t errors_ = 0;
};

}  // namespace rlxc
