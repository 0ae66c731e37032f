// Runs a list of passes over a module: times, verifies, checks numerically, dumps and records each. The runner does the
// bookkeeping that passes must not do themselves.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "passes/pass.h"

namespace rlxc {

class ResultCheck;

struct RunnerOptions {
  bool verify = false;       // the verifier runs after each pass that changed something; a finding is Code::VerifyFailed
  bool verify_each = false;  // as `verify`, and before and after are evaluated on random inputs; Code::PassChangedResult. Where
                             // that is not possible, a warning says why
  uint64_t seed = 1;         // of those inputs
  std::string stop_after;    // the last pass to run; empty: all
  std::vector<std::string> disabled;  // names of passes that are skipped
  // So many rewrites are made and no later ones, not counting the groups interface, lower and legalise, without which nothing can
  // be compiled; negative: all.
  int64_t bisect_limit = -1;
  int64_t most_runs = -1;  // so many passes of any kind run, then the runner stops as at `stop_after`; negative: all
  std::function<void(std::string_view pass, bool changed, const Module&)> dump;  // after each pass that ran
};

struct PassRecord {
  std::string_view name;
  PassResult result;
  double seconds = 0;
  size_t nodes = 0;      // live nodes of all graphs that are in use, afterwards
  int64_t rewrites = 0;  // of those that count for the bisect limit
  bool skipped = false;  // disabled
};

// Of all runs that share it: the bisect limit and `stop_after` count across them.
struct RunnerReport {
  std::vector<PassRecord> passes;
  int64_t executed = 0;  // passes
  RewriteCounter rewrites;
  bool stopped = false;  // `stop_after` was reached: later runs do nothing
  bool changed = false;
  uint64_t version = 0;                             // counts the passes that changed something
  std::map<std::string_view, uint64_t> up_to_date;  // pass -> version that it left behind
  std::shared_ptr<ResultCheck> check;               // of verify_each
};

// Without these passes nothing can be compiled: the groups interface, lower and legalise.
bool is_required(const PassInfo&);

// A pass that would see the module as it left it is not run again (passes are idempotent), and leaves no record.
// False when a check failed or a pass reported an error; the diagnostics name the pass, and no further pass runs.
bool run_passes(Module&, std::span<const PassInfo* const>, PassContext&, const RunnerOptions&, RunnerReport*);

// Repeats the list until a round changes nothing, at most `max_rounds` times.
bool run_to_fixed_point(Module&, std::span<const PassInfo* const>, int max_rounds, PassContext&, const RunnerOptions&,
                        RunnerReport*);

}  // namespace rlxc
