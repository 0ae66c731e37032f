// The results of `rlxc run`, and their forms for programs.
#pragma once
#include <string>
#include <vector>

#include "eval/compare.h"
#include "report/junit.h"

namespace rlxc {

struct OutputReport {
  enum class Verdict : uint8_t { Passed, Failed, Random, NotCompared };  // Random: type and sizes alone are comparable
  std::string name, text;                                                // text: the line about the output, without its name
  Verdict verdict = Verdict::NotCompared;
  bool has_figures = false;  // type and shape are as expected, and elements are finite where the expected are
  eval::Judgement figures = {};
};
struct SetReport {
  std::string name;
  std::vector<OutputReport> outputs;
};
struct RunReport {
  std::string model, tolerance;
  std::vector<SetReport> sets;
  std::string first_difference;  // empty: none was found

  size_t outputs() const;
  size_t count(OutputReport::Verdict) const;
};

std::string run_json(const RunReport&, std::string_view version);
std::vector<report::TestCase> run_cases(const RunReport&);  // one for each output of each set

}  // namespace rlxc
