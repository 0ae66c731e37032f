#include "passes/runner.h"

#include <algorithm>
#include <chrono>

#include "ir/graphs.h"
#include "ir/verify.h"
#include "passes/result_check.h"
#include "support/progress.h"

namespace rlxc {
namespace {

bool still_valid(const Module& m, std::string_view pass, Diagnostics& diagnostics) {
  Diagnostics found;
  if (verify(m, found)) return true;
  for (const Diagnostic& d : found.items())
    diagnostics.error(Code::VerifyFailed, "after pass " + std::string(pass) + ": " + d.message, d.where);
  return false;
}

bool same_results(const Module& m, const PassInfo& pass, ResultCheck& check, Diagnostics& diagnostics) {
  const std::string difference = check.difference(m, pass);
  if (!difference.empty()) diagnostics.error(Code::PassChangedResult, "after pass " + std::string(pass.name) + ": " + difference);
  return difference.empty();
}

void begin_checks(const Module& m, PassContext& context, const RunnerOptions& options, RunnerReport* report) {
  report->rewrites.limit = options.bisect_limit;
  if (!options.verify_each || report->check) return;
  report->check = std::make_shared<ResultCheck>(m, options.seed);
  if (!report->check->not_comparable().empty())
    context.diagnostics.warning(Code::PassChangedResult, "the passes are not compared: " + report->check->not_comparable());
}

// Runs and times the pass.
PassRecord execute(Module& m, const PassInfo& pass, PassContext& context, RunnerReport* report) {
  PassRecord record;
  record.name = pass.name;
  const int64_t rewrites = report->rewrites.made;
  context.rewrites = is_required(pass) ? nullptr : &report->rewrites;
  note_stage(pass.name);
  m.current_pass = m.symbol(pass.name);
  const auto start = std::chrono::steady_clock::now();
  record.result = pass.run(m, context);
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  m.current_pass = {};
  context.rewrites = nullptr;
  record.rewrites = report->rewrites.made - rewrites;
  record.nodes = live_nodes(m);
  if (record.result.changed) context.launches.reset();
  return record;
}

void remember(const PassRecord& record, RunnerReport* report) {
  ++report->executed;
  report->changed |= record.result.changed;
  report->version += record.result.changed;
  report->up_to_date[record.name] = report->version;
  report->passes.push_back(record);
}

bool is_up_to_date(const PassInfo& pass, const RunnerReport& report) {
  const auto seen = report.up_to_date.find(pass.name);
  return seen != report.up_to_date.end() && seen->second == report.version;
}

// Runs one pass with all checks. Returns false if one fails.
bool run_pass(Module& m, const PassInfo& pass, PassContext& context, const RunnerOptions& options, RunnerReport* report) {
  const size_t errors = context.diagnostics.errors();
  const PassRecord record = execute(m, pass, context, report);
  remember(record, report);
  if (options.dump) options.dump(pass.name, record.result.changed, m);
  if (context.diagnostics.errors() > errors) return false;
  if (!record.result.changed) return true;
  if ((options.verify || options.verify_each) && !still_valid(m, pass.name, context.diagnostics)) return false;
  return !options.verify_each || same_results(m, pass, *report->check, context.diagnostics);
}

}  // namespace

bool is_required(const PassInfo& pass) {
  return pass.group == "interface" || pass.group == "lower" || pass.group == "shard" || pass.group == "legalise";
}

bool run_passes(Module& m, std::span<const PassInfo* const> passes, PassContext& context, const RunnerOptions& options,
                RunnerReport* report) {
  begin_checks(m, context, options, report);
  context.launches.reset();
  for (const PassInfo* pass : passes) {
    if (report->stopped) return true;
    const bool disabled = std::ranges::find(options.disabled, pass->name) != options.disabled.end();
    if (disabled) {
      PassRecord& record = report->passes.emplace_back();
      record.name = pass->name;
      record.skipped = true;
    } else if (is_up_to_date(*pass, *report)) {
      // Skipped: passes are idempotent.
    } else if (options.most_runs >= 0 && report->executed >= options.most_runs) {
      report->stopped = true;
    } else if (!run_pass(m, *pass, context, options, report)) {
      return false;
    }
    report->stopped |= pass->name == options.stop_after;
  }
  return true;
}

bool run_to_fixed_point(Module& m, std::span<const PassInfo* const> passes, int max_rounds, PassContext& context,
                        const RunnerOptions& options, RunnerReport* report) {
  for (int round = 0; round < max_rounds && !report->stopped; ++round) {
    const size_t first = report->passes.size();
    if (!run_passes(m, passes, context, options, report)) return false;
    bool changed = false;
    for (size_t i = first; i < report->passes.size(); ++i) changed |= report->passes[i].result.changed;
    if (!changed) break;
  }
  return true;
}

}  // namespace rlxc
