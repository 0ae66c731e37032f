// Runs trees of ONNX test cases with the reference engine, with kernels, or both, and compares with the expected results. Prints
// every failing case with its reason, a table by operator, and counts.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "report/table.h"
#include "runtime/process.h"
#include "work.h"

using namespace rlxc;
using namespace rlxc::suite;

namespace {

constexpr const char* kOutcomes[] = {"passed", "FAILED", "skipped"};
constexpr std::pair<Engine, const char*> kEngines[] = {
    {Engine::Reference, "reference"}, {Engine::Interpreter, "interpreter"}, {Engine::Kernels, "kernels"}};

const char* name(Engine e) {
  for (const auto& [engine, text] : kEngines)
    if (engine == e) return text;
  return "";
}

struct Counts {
  size_t of[3] = {};
  size_t& operator[](Outcome o) { return of[static_cast<size_t>(o)]; }
};

std::string text(const Counts& c) {
  return std::to_string(c.of[0]) + " passed, " + std::to_string(c.of[1]) + " failed, " + std::to_string(c.of[2]) + " skipped";
}

using Rows = std::map<std::string, std::map<Engine, Counts>>;

void print(const std::string& head, Rows& rows, const std::vector<Engine>& engines) {
  std::vector<std::string> titles = {head};
  for (Engine e : engines)
    for (const char* o : kOutcomes) titles.push_back(std::string(name(e)) + " " + o);
  report::Table table(titles);
  for (auto& [name, by_engine] : rows) {
    std::vector<std::string> row = {name};
    for (Engine e : engines)
      for (size_t n : by_engine[e].of) row.push_back(n ? std::to_string(n) : "-");
    table.add(row);
  }
  std::string out;
  table.print(&out);
  std::cout << '\n' << out;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  settings.run.atol = 1e-7;
  settings.jobs = std::max(1u, std::thread::hardware_concurrency());
  std::string engine = "both", expected_file;
  std::vector<std::string> folders;
  bool verbose = false, allow_skips = false;
  CLI::App app("Runs ONNX-layout test cases and compares the results with the expected ones.");
  app.add_option("--engine", engine, "which engine computes; both: reference and kernels")
      ->check(CLI::IsMember({"reference", "interpreter", "kernels", "both"}))
      ->capture_default_str();
  app.add_option("--target,-t", settings.run.target, "whose kernels, as of rlxc run")->capture_default_str();
  app.add_option("--rtol", settings.run.rtol, "relative tolerance")->capture_default_str();
  app.add_option("--atol", settings.run.atol, "absolute tolerance")->capture_default_str();
  app.add_flag("--verify-each", settings.verify_each, "evaluate before and after every pass, and compare");
  app.add_option("--seconds", settings.seconds, "time for one case")->capture_default_str();
  app.add_option("--jobs,-j", settings.jobs, "cases at a time")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--expected-failures", expected_file, "lines NAME ENGINE REASON; then fails where anything else does not pass")
      ->check(CLI::ExistingFile);
  app.add_flag("--allow-skips", allow_skips, "skipped cases need not be on that list");
  app.add_flag("-v,--verbose", verbose, "print the cases that pass, too");
  app.add_option("DIR", folders, "folders of cases, at any depth")->required()->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);

  std::vector<Engine> engines;
  for (const auto& [e, text] : kEngines)
    if (engine == text || (engine == "both" && e != Engine::Interpreter)) engines.push_back(e);
  ExpectedFailures expected;
  if (!expected_file.empty()) expected.read(expected_file);
  const target::WorkFolder scratch;  // shared by all processes, including those that crash
  if (!scratch.path().empty()) setenv("TMPDIR", scratch.path().c_str(), 1);

  const std::vector<Case> cases = find_cases(folders);
  Rows by_op, by_group, all;
  std::vector<Outcome> worst(cases.size(), Outcome::Passed);
  size_t surprises = 0;
  for (Engine e : engines) {
    const std::string engine_name = name(e);
    settings.run.engine = e;
    run_cases(cases, settings, [&](const Case& c, const Verdict& v) {
      for (Counts* counts : {&by_op[c.op][e], &by_group[c.group][e], &all["all"][e]}) ++(*counts)[v.outcome];
      Outcome& w = worst[static_cast<size_t>(&c - cases.data())];
      if (w != Outcome::Failed && v.outcome != Outcome::Passed) w = v.outcome;
      const bool passed = v.outcome == Outcome::Passed;
      const std::string* known = expected.reason(c.name, engine_name);
      if (!known && settings.verify_each) known = expected.reason(c.name, "verify-each");
      surprises += v.outcome == Outcome::Failed ? !known : !passed && !known && !expected_file.empty() && !allow_skips;
      if (passed && !known && !verbose) return;
      std::cout << kOutcomes[static_cast<size_t>(v.outcome)] << ' ' << c.name << " (" << engine_name << ")";
      if (!passed) std::cout << ": " << v.message;
      if (known) std::cout << (passed ? ": take it off the list of expected failures" : "  [expected: " + *known + "]");
      std::cout << std::endl;
    });
  }
  print("operator", by_op, engines);
  print("folder", by_group, engines);
  std::cout << '\n';
  for (Engine e : engines) std::cout << name(e) << ": " << text(all["all"][e]) << '\n';
  Counts total;  // by case: passed means with every engine
  for (Outcome o : worst) ++total[o];
  std::cout << text(total) << '\n';
  return cases.empty() || surprises > 0;
}
