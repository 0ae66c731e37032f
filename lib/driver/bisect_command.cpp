// rlxc bisect: which pass breaks a check?
#include <cstdlib>
#include <iostream>

#include "driver/commands.h"
#include "driver/compile.h"
#include "driver/target_traits.h"

namespace rlxc {
namespace {

// The passes that can be left out, in the order in which they run.
std::optional<std::vector<std::string>> optional_passes(const Options& o, Diagnostics& d) {
  auto model = load_model(o, d);
  const TargetTraits* traits = find_target(o.targets[0]);
  if (!traits) d.error(Code::BadFlag, "there is no target \"" + o.targets[0] + "\"", {}, "`rlxc list targets` shows them");
  if (!model || !traits) return std::nullopt;
  const auto passes = pass_options(o, d);
  Compiled out;
  if (!passes) return std::nullopt;
  const bool fine = optimise(*model->module, *traits, o, *passes, {}, &out, d);
  if (!fine && out.passes.executed == 0) return std::nullopt;  // else the passes up to the one that fails are what is asked for
  d = Diagnostics(o.input);
  std::vector<std::string> names;
  for (const PassRecord& p : out.passes.passes)
    if (!p.skipped && !is_required(*find_pass(p.name))) names.emplace_back(p.name);
  return names;
}

bool passes_with(const std::string& check, size_t limit) {
  setenv("RLX_BISECT_LIMIT", std::to_string(limit).c_str(), 1);
  const bool pass = std::system(check.c_str()) == 0;
  std::cerr << "first " << limit << " passes: " << (pass ? "passes" : "fails") << "\n";
  return pass;
}

}  // namespace

ExitCode bisect_command(const Options& o, const std::string& check, Terminal terminal) {
  Diagnostics d(o.input);
  const auto names = optional_passes(o, d);
  if (!names) return print_diagnostics(d, terminal);
  if (passes_with(check, names->size())) {
    std::cout << "the check passes with all " << names->size() << " passes\n";
    return ExitCode::Ok;
  }
  size_t good = 0, bad = names->size();
  if (!passes_with(check, 0)) {
    std::cout << "the check fails without any pass that can be left out\n";
    return ExitCode::Finding;
  }
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    (passes_with(check, middle) ? good : bad) = middle;
  }
  std::cout << "pass " << bad << " of " << names->size() << " breaks the check: " << (*names)[bad - 1]
            << "\nsee what it does: rlxc compile " << o.input << " --target " << o.targets[0] << " --bisect-limit " << bad
            << " --dump -o out\n";
  return ExitCode::Finding;
}

}  // namespace rlxc
