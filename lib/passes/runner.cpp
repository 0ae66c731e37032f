#include "passes/runner.h"

#include <algorithm>
#include <chrono>

#include "ir/graphs.h"
#include "ir/verify.h"
#include "passes/result_check.h"

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

bool is_required(const PassInfo& pass) { return pass.group == "lower" || pass.group == "legalise"; }

}  // namespace

bool run_passes(Module& m, std::span<const PassInfo* const> passes, PassContext& context, const RunnerOptions& options,
                RunnerReport* report) {
  if (options.verify_each && !report->check) {
    report->check = std::make_shared<ResultCheck>(m, options.seed);
    if (!report->check->why_not().empty())
      context.diagnostics.warning(Code::PassChangedResult, "the passes are not compared: " + report->check->why_not());
  }
  report->rewrites.limit = options.bisect_limit;
  for (const PassInfo* pass : passes) {
    if (report->stopped) return true;
    const auto seen = report->up_to_date.find(pass->name);
    if (seen != report->up_to_date.end() && seen->second == report->version) {
      report->stopped = pass->name == options.stop_after;
      continue;
    }
    PassRecord record;
    record.name = pass->name;
    record.skipped = std::ranges::find(options.disabled, pass->name) != options.disabled.end();
    if (!record.skipped && options.most_runs >= 0 && report->executed >= options.most_runs) return report->stopped = true, true;
    if (!record.skipped) {
      ++report->executed;
      context.rewrites = is_required(*pass) ? nullptr : &report->rewrites;
      const int64_t rewrites = report->rewrites.made;
      const size_t errors = context.diagnostics.errors();
      m.current_pass = m.symbol(pass->name);
      const auto start = std::chrono::steady_clock::now();
      record.result = pass->run(m, context);
      context.rewrites = nullptr;
      record.rewrites = report->rewrites.made - rewrites;
      record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      m.current_pass = {};
      record.nodes = live_nodes(m);
      report->changed |= record.result.changed;
      const bool changed = record.result.changed;
      report->version += changed;
      report->up_to_date[pass->name] = report->version;
      report->passes.push_back(std::move(record));
      if (options.dump) options.dump(pass->name, changed, m);
      if (context.diagnostics.errors() > errors) return false;
      if (changed && (options.verify || options.verify_each) && !still_valid(m, pass->name, context.diagnostics)) return false;
      if (changed && options.verify_each && !same_results(m, *pass, *report->check, context.diagnostics)) return false;
    } else {
      report->passes.push_back(std::move(record));
    }
    if (pass->name == options.stop_after) report->stopped = true;
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
