// rlxc bisect: finds the rewrite of a pass that breaks a check.
#include <cstdlib>
#include <iostream>

#include "backend/target_traits.h"
#include "commands/check_run.h"
#include "commands/commands.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/pass_options.h"
#include "ir/text.h"
#include "support/line_diff.h"

namespace rlxc {
namespace {

// The model after a number of rewrites and passes.
struct Optimised {
  std::unique_ptr<Module> module;
  Compiled out;
  std::string text;
};

std::optional<Optimised> optimised(CompileOptions o, int64_t rewrites, int64_t runs, Diagnostics& d) {
  o.bisect_limit = rewrites;
  o.most_runs = runs;
  auto model = load_model(o, d);
  const TargetTraits* traits = find_target(o.targets[0]);
  if (!traits) d.error(Code::BadFlag, "there is no target \"" + o.targets[0] + "\"", {}, "`rlxc list targets` shows them");
  if (!model || !traits) return std::nullopt;
  const auto passes = pass_options(o, d);
  Optimised r;
  if (!passes) return std::nullopt;
  const bool fine = optimise(*model->module, *traits, o, *passes, {}, &r.out, d);
  if (!fine && r.out.passes.executed == 0) return std::nullopt;  // the rewrites before the failure are still of use
  d = Diagnostics(o.input);
  r.text = print(*model->module, {.full_data = false, .origins = false});
  r.module = std::move(model->module);
  return r;
}

std::optional<bool> passes_with(const std::string& check, int64_t limit, Diagnostics& d) {
  setenv("RLX_BISECT_LIMIT", std::to_string(limit).c_str(), 1);
  return run_check(check, "first " + std::to_string(limit) + " rewrites", d);
}

// Returns the count that is higher in `now` than in `before`.
std::string counted_more(const PassResult& before, const PassResult& now) {
  for (const auto& [what, n] : now.counts) {
    int64_t earlier = 0;
    for (const auto& [name, m] : before.counts)
      if (name == what) earlier = m;
    if (n > earlier) return std::string(what);
  }
  return {};
}

// Reports the pass, the rewrite, its node, and the nodes before and after.
void describe(const CompileOptions& o, int64_t rewrite, int64_t total, Diagnostics& d) {
  const auto all = optimised(o, rewrite, -1, d);
  int64_t runs = 0, made = 0;
  for (const PassRecord& p : all->out.passes.passes) {
    runs += !p.skipped;
    made += p.rewrites;
    if (made == rewrite) break;
  }
  const auto before = optimised(o, rewrite - 1, runs, d), now = optimised(o, rewrite, runs, d);
  const PassRecord &last = before->out.passes.passes.back(), &record = now->out.passes.passes.back();
  std::cout << "rewrite " << rewrite << " of " << total << " breaks the check: " << record.name;
  if (const std::string what = counted_more(last.result, record.result); !what.empty()) std::cout << " (" << what << ")";
  if (now->out.decisions.size() > before->out.decisions.size())
    if (const Decision& decision = now->out.decisions.back(); decision.fused)
      std::cout << ", " << decision.pattern << " at " << now->module->text(decision.node).line();
  std::cout << "\n"
            << unified_diff(before->text, now->text, "before", "after") << "see it in its place: rlxc compile " << o.input
            << " --target " << o.targets[0] << " --bisect-limit " << rewrite << " --dump -o out\n";
}

}  // namespace

ExitCode bisect_command(const CompileOptions& o, const std::string& check, Terminal terminal) {
  Diagnostics d(o.input);
  const auto all = optimised(o, -1, -1, d);
  if (!all) return print_diagnostics(d, terminal);
  const int64_t total = all->out.passes.rewrites.made;
  const auto with_all = passes_with(check, total, d);
  if (!with_all) return print_diagnostics(d, terminal);
  if (*with_all) {
    std::cout << "the check passes with all " << total << " rewrites\n";
    return ExitCode::Ok;
  }
  int64_t good = 0, bad = total;
  const auto with_none = passes_with(check, 0, d);
  if (!with_none) return print_diagnostics(d, terminal);
  if (!*with_none) {
    std::cout << "the check fails without any rewrite that can be left out\n";
    return ExitCode::Finding;
  }
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    const auto passes = passes_with(check, middle, d);
    if (!passes) return print_diagnostics(d, terminal);
    (*passes ? good : bad) = middle;
  }
  describe(o, bad, total, d);
  return ExitCode::Finding;
}

}  // namespace rlxc
