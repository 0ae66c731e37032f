// Runs a list of passes over a module: times, verifies, checks numerically, dumps and records each.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "passes/pass.h"

namespace rlxc {

class ResultCheck;

struct RunnerOptions {
  bool verify = false;  // verify after each pass that changed the module; errors are Code::VerifyFailed
  // As `verify`, and compares results on random inputs: Code::PassChangedResult, or a warning if that is impossible.
  bool verify_each = false;
  uint64_t seed = 1;                  // of the random inputs
  std::string stop_after;             // last pass to run; empty: all
  std::vector<std::string> disabled;  // names of skipped passes
  // Limit on rewrites, not counting passes of the required groups (is_required); negative: none.
  int64_t bisect_limit = -1;
  int64_t most_runs = -1;  // limit on runs of passes; then stops as at `stop_after`; negative: none
  std::function<void(std::string_view pass, bool changed, const Module&)> dump;  // called after each pass that ran
};

struct PassRecord {
  std::string_view name;
  PassResult result;
  double seconds = 0;
  size_t nodes = 0;      // live nodes of all graphs in use, after the pass
  int64_t rewrites = 0;  // those that count for the bisect limit
  bool skipped = false;  // disabled
};

// Shared by several runs: the bisect limit and `stop_after` count across them.
struct RunnerReport {
  std::vector<PassRecord> passes;
  int64_t executed = 0;  // number of passes
  RewriteCounter rewrites;
  bool stopped = false;  // `stop_after` was reached; later runs do nothing
  bool changed = false;
  uint64_t version = 0;                             // number of passes that changed something
  std::map<std::string_view, uint64_t> up_to_date;  // pass -> version after its last run
  std::shared_ptr<ResultCheck> check;               // for verify_each
};

// The passes required for every compile: groups interface, lower, shard and legalise.
bool is_required(const PassInfo&);

// Skips a pass if nothing changed since its last run (passes are idempotent). Returns false if a check failed or a pass reported
// an error; the diagnostics name the pass, and no further pass runs.
bool run_passes(Module&, std::span<const PassInfo* const>, PassContext&, const RunnerOptions&, RunnerReport*);

// Repeats the list until nothing changes, at most `max_rounds` times.
bool run_to_fixed_point(Module&, std::span<const PassInfo* const>, int max_rounds, PassContext&, const RunnerOptions&,
                        RunnerReport*);

}  // namespace rlxc
