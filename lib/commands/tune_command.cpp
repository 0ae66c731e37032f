// `rlxc tune`: measures block sizes (kernel/blocking.h) around those of the processor model, and writes for each operation the
// ones that are faster. A choice is measured twice: among the candidates, and once more beside the sizes of the model.
#include <algorithm>
#include <iostream>
#include <map>
#include <span>

#include "backend/c/cpu_models.h"
#include "commands/commands.h"
#include "commands/profile.h"
#include "commands/progress_line.h"
#include "driver/tuning_file.h"
#include "report/table.h"
#include "runtime/process.h"
#include "support/output_file.h"
#include "support/progress.h"
#include "support/schemas.h"

namespace rlxc {
namespace {

using codegen::Tuning;
using kernel::Blocking;

constexpr double kGain = 0.97;        // of the time before, for a choice to count
constexpr double kNegligible = 1e-3;  // share of the run below which an operation is left alone

// Factors of the sizes of the model, in the order of kBlockingFields. They are tried together: an operation reads few of them.
constexpr double kScales[][std::size(kernel::kBlockingFields)] = {
    {.5, 1, 1, .25, .25, .5, 1}, {2, 1, 1, 4, 2, 2, 1},       {1, .5, .5, .5, .5, 1, .5},  {1, 2, 2, 2, 1, 1, 2},
    {.5, 2, 2, 8, 1, .5, 2},     {2, .5, .5, .125, 1, 2, .5}, {.25, 1, 1, 1, .125, .25, 4}};

Blocking scaled(const Blocking& base, std::span<const double> factors) {
  Blocking b;
  for (size_t i = 0; i < factors.size(); ++i) {
    const kernel::BlockingField& f = kernel::kBlockingFields[i];
    b.*f.field = std::clamp(static_cast<int64_t>(static_cast<double>(base.*f.field) * factors[i]), f.least, f.most);
  }
  return b;
}

using Times = std::map<std::string, double>;  // milliseconds by tuning key

class Tuner {
 public:
  Tuner(const CompileOptions& o, const ProfileRequest& request, Diagnostics& d) : options_(o), request_(request), d_(d) {}

  // Times with these choices; with the sizes of the model for operations that have none.
  std::optional<Times> measure(const Tuning& choices) {
    CompileOptions o = options_;
    o.tuning_file.clear();
    if (folder_.path().empty()) {
      d_.error(Code::NotWritable, "cannot make a temporary folder", {}, "TMPDIR names where");
      return std::nullopt;
    }
    if (!choices.empty()) {
      o.tuning_file = folder_.path() + "/tuning.json";
      if (!write_file(o.tuning_file, tuning_json({"", choices}, version()), d_)) return std::nullopt;
    }
    const auto profile = profile_model(o, request_, d_);
    if (!profile) return std::nullopt;
    Times times;
    for (const NodeTime& n : profile->nodes)
      if (!n.key.empty()) times[n.key] += n.ms;
    run_ms_ = profile->run_ms;
    return times;
  }
  double run_ms() const { return run_ms_; }  // of the last measurement

 private:
  const CompileOptions& options_;
  const ProfileRequest& request_;
  Diagnostics& d_;
  target::WorkFolder folder_;
  double run_ms_ = 0;
};

std::string sizes_text(const Blocking& b, const Blocking& base) {
  std::string s;
  for (const kernel::BlockingField& f : kernel::kBlockingFields)
    if (b.*f.field != base.*f.field) s += (s.empty() ? "" : " ") + std::string(f.name) + "=" + std::to_string(b.*f.field);
  return s;
}

}  // namespace

ExitCode tune_command(const CompileOptions& o, const ProfileRequest& request, Terminal t) {
  Diagnostics d(o.input);
  Tuner tuner(o, request, d);
  const auto first = tuner.measure({});
  const target::CpuModel* cpu = target::find_cpu(o.cpu);
  if (!first || !cpu) return print_diagnostics(d, t);
  const Blocking base = target::cpu_mapping(*cpu).blocking;
  double all = 0;
  for (const auto& [key, ms] : *first) all += ms;

  Times best = *first;
  Tuning choices;
  for (size_t i = 0; i < std::size(kScales); ++i) {
    const Blocking blocking = scaled(base, kScales[i]);
    Tuning candidate;
    for (const auto& [key, ms] : *first)
      if (ms > kNegligible * all) candidate[key] = blocking;
    note_stage("candidate " + std::to_string(i + 1) + " of " + std::to_string(std::size(kScales)));
    const auto times = tuner.measure(candidate);
    if (!times) return print_diagnostics(d, t);
    for (const auto& [key, choice] : candidate)
      if (const auto at = times->find(key); at != times->end() && at->second < kGain * best[key]) {
        best[key] = at->second;
        choices[key] = choice;
      }
  }

  // The second measurement drops what was luck.
  auto tuned = tuner.measure(choices);
  const auto plain = tuned ? tuner.measure({}) : std::nullopt;
  if (!plain) return print_diagnostics(d, t);
  std::erase_if(choices, [&](const auto& c) { return (*tuned)[c.first] >= kGain * plain->at(c.first); });
  const double plain_ms = tuner.run_ms();
  if (!tuner.measure(choices)) return print_diagnostics(d, t);

  report::Table table({"operation", "ms", "tuned ms", "block sizes"});
  for (const auto& [key, blocking] : choices)
    table.add(
        {ForeignText(key).line(), report::fixed(plain->at(key), 3), report::fixed((*tuned)[key], 3), sizes_text(blocking, base)});
  std::string text;
  if (!choices.empty()) table.print(&text);
  text += std::to_string(choices.size()) + " of " + std::to_string(first->size()) + " operations gain; a run takes " +
          report::fixed(plain_ms, 3) + " ms before and " + report::fixed(tuner.run_ms(), 3) + " ms after\n";
  if (!write_file(o.output, tuning_json({std::string(cpu->name), choices}, version()), d)) return print_diagnostics(d, t);
  clear_progress_line();
  std::cout << text;
  return print_diagnostics(d, t);
}

}  // namespace rlxc
