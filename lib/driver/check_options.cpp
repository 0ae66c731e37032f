#include "driver/check_options.h"

#include <algorithm>

#include "backend/backend.h"
#include "backend/c/cpu.h"
#include "backend/target_traits.h"
#include "options/option_text.h"
#include "support/text.h"

namespace rlxc {
namespace {

bool is_for_cpu(const TargetInfo& t) { return t.language == target::cpu; }
bool keeps_weights_beside(const TargetInfo& t) { return t.language != nullptr; }
bool has_bindings(const TargetInfo& t) { return t.max_binding != 0; }

// Options that only some targets read.
struct TargetOption {
  std::string_view key;
  bool (*reads)(const TargetInfo&);
};
constexpr TargetOption kOfTargets[] = {{"cpu", is_for_cpu},
                                       {"tuning", is_for_cpu},
                                       {"winograd", is_for_cpu},
                                       {"embed-weights", keeps_weights_beside},
                                       {"max-binding", has_bindings}};

void no_effect(const std::string& flag, const std::string& why, const std::string& help, Diagnostics& d) {
  d.warning(Code::BadFlag, flag + " has no effect " + why, {}, help);
}

}  // namespace

bool check_targets(std::span<const std::string> targets, Diagnostics& d) {
  for (const std::string& name : targets)
    if (!find_target(name)) d.error(Code::BadFlag, "there is no target " + quote(name), {}, target_advice(name));
  return d.ok();
}

void check_options(const CompileOptions& o, std::span<const std::string> targets, Diagnostics& d) {
  CommandLine line;
  static_cast<CompileOptions&>(line) = o;
  for (const TargetOption& own : kOfTargets) {
    const Option& option = *find_option(own.key);
    const bool read = std::ranges::any_of(targets, [&](const std::string& t) {
      const Backend* backend = find_backend(t);
      return !backend || own.reads(backend->info);
    });
    if (!read && !is_default(line, option)) no_effect(std::string(long_name(option)), "for " + join(targets, ", "), {}, d);
  }
}

bool knows_symbol(const Module& m, const std::string& symbol, const std::string& flag, Diagnostics& d) {
  if (m.dims.has_symbol(symbol)) return true;
  const std::vector<std::string_view> names(m.dims.symbol_names().begin(), m.dims.symbol_names().end());
  const auto close = closest(symbol, names);
  d.error(Code::BadBinding, flag + " names \"" + symbol + "\", which the model does not have", {},
          close           ? "did you mean " + std::string(*close) + "?"
          : names.empty() ? "the model has no symbolic dimensions"
                          : "it has " + join(std::span(names).first(std::min<size_t>(names.size(), 10)), ", "));
  return false;
}

bool knows_input(const Module& m, const std::string& input, const std::string& flag, Diagnostics& d) {
  std::vector<std::string> names;
  for (NodeId n : m.main().inputs()) names.push_back(m.main().label(n).bytes());
  if (std::ranges::find(names, input) != names.end()) return true;
  const auto close = closest(input, std::vector<std::string_view>(names.begin(), names.end()));
  d.error(Code::BadBinding, flag + " names " + ForeignText(input).quoted() + ", which is no input of the model", {},
          close ? "did you mean " + ForeignText(*close).quoted() + "?" : "");
  return false;
}

}  // namespace rlxc
