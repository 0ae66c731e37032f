// Runs trees of ONNX-layout cases (DIR/**/CASE/model.onnx with test_data_set_*/input_N.pb and output_N.pb) with the reference
// engine and compares the results. Each case runs in a process of its own, so that a crash or a hang is one failed case.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "eval/eval.h"
#include "import/onnx/import.h"
#include "import/onnx/tensor_file.h"
#include "ir/verify.h"

namespace fs = std::filesystem;
using namespace rlxc;

namespace {

struct Settings {
  double rtol = 1e-3, atol = 1e-7;
  int seconds = 30;
  bool import_only = false;
};

enum class Outcome { Pass, Fail, Unsupported, Crash };
constexpr const char* kOutcomes[] = {"pass", "FAIL", "unsupported", "CRASH"};

struct Verdict {
  Outcome outcome = Outcome::Pass;
  std::string message;
};

// Older suites keep bfloat16 as uint16.
eval::HostValue host_value(onnx_import::FileValue v, const Type& type) {
  if (v.tensor.dtype == DType::U16 && type.dtype == DType::BF16) v.tensor.dtype = DType::BF16;
  eval::HostValue out{v.kind, std::move(v.tensor), {}};
  for (auto& item : v.items) out.items.push_back(host_value(std::move(item), type));
  return out;
}

std::string first_line(const Diagnostics& d) {
  for (const Diagnostic& i : d.items())
    if (i.severity == Severity::Error) return i.where + ": " + i.message;
  return {};
}

Verdict refused(const Diagnostics& d) {
  const ExitCode e = d.exit();
  return {e == ExitCode::Unsupported || e == ExitCode::Limit ? Outcome::Unsupported : Outcome::Fail, first_line(d)};
}

std::string file_of(const fs::path& data, const char* what, size_t i) {
  return (data / (std::string(what) + std::to_string(i) + ".pb")).string();
}

Verdict run_data_set(const fs::path& model, const fs::path& data, const Settings& settings) {
  Diagnostics d;
  onnx_import::ImportOptions options;
  options.contents = [&](size_t i, TypeKind kind) -> std::optional<TensorData> {
    Diagnostics quiet;
    if (auto v = onnx_import::read_value_file(file_of(data, "input_", i), kind, quiet)) return v->tensor;
    return std::nullopt;
  };
  if (settings.import_only) options.missing_weights = onnx_import::MissingWeights::Allow;
  const auto module = onnx_import::import_onnx(model.string(), options, d);
  if (!module) return refused(d);
  if (!verify(*module, d)) return {Outcome::Fail, "verify: " + first_line(d)};
  if (settings.import_only) return {};
  const Graph& g = module->main();
  std::vector<eval::HostValue> inputs, expected;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Type& type = g.type(g.result(g.inputs()[i]));
    auto v = onnx_import::read_value_file(file_of(data, "input_", i), type.kind, d);
    if (!v) return refused(d);
    inputs.push_back(host_value(std::move(*v), type));
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const Type& type = g.type(g.outputs()[i]);
    auto v = onnx_import::read_value_file(file_of(data, "output_", i), type.kind, d);
    if (!v) return refused(d);
    expected.push_back(host_value(std::move(*v), type));
  }
  const auto results = eval::evaluate(*module, inputs, d);
  if (!results) return refused(d);
  for (size_t i = 0; i < results->size(); ++i) {
    const double resolution = expected[i].tensor.dtype == DType::BF16 ? 1.0 / 128 : 0;  // one unit in the last place
    const auto c = eval::compare((*results)[i], expected[i], std::max(settings.rtol, resolution), settings.atol);
    if (c.pass) continue;
    std::ostringstream s;
    s << "output " << i << ": " << c.message << ", max abs " << c.max_abs << ", max rel " << c.max_rel;
    return {Outcome::Fail, s.str()};
  }
  return {};
}

Verdict run_case(const fs::path& folder, const Settings& settings) {
  std::vector<fs::path> sets;
  for (const auto& e : fs::directory_iterator(folder))
    if (e.is_directory() && e.path().filename().string().starts_with("test_data_set")) sets.push_back(e.path());
  std::sort(sets.begin(), sets.end());
  if (sets.empty() && !settings.import_only) return {Outcome::Unsupported, "has no data"};
  if (sets.empty()) sets.emplace_back();
  for (const auto& set : sets)
    if (Verdict v = run_data_set(folder / "model.onnx", set, settings); v.outcome != Outcome::Pass) return v;
  return {};
}

// In a child process: its verdict comes back through a pipe.
Verdict isolated(const fs::path& folder, const Settings& settings) {
  int ends[2];
  if (pipe(ends) != 0) return {Outcome::Crash, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(static_cast<unsigned>(settings.seconds));
    const Verdict v = run_case(folder, settings);
    std::string text(1, static_cast<char>('0' + static_cast<int>(v.outcome)));
    text += v.message.substr(0, 2000);
    const bool written = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return {Outcome::Crash, WTERMSIG(status) == SIGALRM ? "took more than " + std::to_string(settings.seconds) + " s"
                                                        : strsignal(WTERMSIG(status))};
  if (text.empty()) return {Outcome::Crash, "no answer"};
  return {static_cast<Outcome>(text[0] - '0'), text.substr(1)};
}

std::map<std::string, std::string> read_expected(const std::string& path) {
  std::map<std::string, std::string> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.find(' ');
    out[line.substr(0, space)] = space == line.npos ? "" : line.substr(space + 1);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::map<std::string, std::string> expected;
  std::vector<fs::path> cases;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (a == "--rtol") settings.rtol = std::atof(value().c_str());
    else if (a == "--atol") settings.atol = std::atof(value().c_str());
    else if (a == "--seconds") settings.seconds = std::atoi(value().c_str());
    else if (a == "--expected-failures") expected = read_expected(value());
    else if (a == "--import-only") settings.import_only = true;
    else if (a == "-v") verbose = true;
    else if (std::error_code error; fs::exists(fs::path(a) / "model.onnx", error)) cases.emplace_back(a);
    else
      for (const auto& e : fs::recursive_directory_iterator(a, error))
        if (e.path().filename() == "model.onnx") cases.push_back(e.path().parent_path());
  }
  if (cases.empty()) {
    std::cerr << "usage: onnx_suite [--rtol R] [--atol A] [--seconds N] [--expected-failures FILE] [--import-only] [-v] DIR...\n";
    return 2;
  }
  std::sort(cases.begin(), cases.end());
  std::map<std::string, std::pair<int, int>> groups;  // passed, total
  int counts[4] = {}, regressions = 0;
  for (const auto& c : cases) {
    const Verdict v = isolated(c, settings);
    ++counts[static_cast<int>(v.outcome)];
    auto& group = groups[c.parent_path().filename().string()];
    group.first += v.outcome == Outcome::Pass;
    ++group.second;
    const std::string name = c.filename().string();
    const auto known = expected.find(name);
    const bool passed = v.outcome == Outcome::Pass;
    if (!passed && known == expected.end()) ++regressions;
    if (!passed)
      std::cout << kOutcomes[static_cast<int>(v.outcome)] << ' ' << name << ": " << v.message
                << (known != expected.end() ? "  [expected: " + known->second + "]" : "") << std::endl;
    else if (known != expected.end()) std::cout << "pass " << name << ": listed as a failure, take it off the list\n";
    else if (verbose) std::cout << "pass " << name << '\n';
  }
  for (const auto& [name, n] : groups) std::cout << name << ": " << n.first << " of " << n.second << " passed\n";
  std::cout << counts[0] << " passed, " << counts[1] + counts[3] << " failed, " << counts[2] << " skipped\n";
  return expected.empty() ? counts[1] + counts[3] > 0 : regressions > 0;
}
