// The command line: maps options to flags, prints diagnostics, sets the exit code. Everything else is in lib/driver.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <deque>
#include <iostream>

#include "driver/commands.h"
#include "driver/limits.h"
#include "driver/reproducer.h"
#include "options/configuration.h"
#include "options/option_text.h"
#include "support/output_file.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace {

using namespace rlxc;

constexpr char kExamples[] = R"(Examples:
  rlxc compile model.onnx --target metal --precision automixed -o out/
  rlxc compile model.onnx --target cpu --target cuda --emit lir,plan,fusion
  rlxc compile model.onnx --emit fusion -o - | less
  rlxc run model.onnx --data test_data_set_0
  rlxc check model.onnx --target all
  rlxc inspect model.onnx --after-each
  rlxc transform model.onnx --grad loss -o gradients.json
  rlxc list passes

Exit codes: 0 ok, 1 a finding, 2 usage, 3 input unreadable, 4 input invalid, 5 unsupported, 6 output not writable,
7 resource limit, 70 internal error.)";

// An option and its values on the command line.
struct Given {
  const Option* option;
  CLI::Option* flag = nullptr;
  bool value = false;
  std::string word = {};
  std::vector<std::string> words = {};
};

// Words of --transform, whose order on the command line counts, whatever the flag.
bool is_step(const Option& o) { return o.group == Group::Transforms || !o.step.empty(); }

void add_option(CLI::App* app, Given& given) {
  const Option& o = *given.option;
  const std::string flag(o.flag), help = help_text(o);
  if (is_flag(o) && is_step(o)) given.flag = app->add_flag(flag, help);
  else if (is_flag(o)) given.flag = app->add_flag(flag, given.value, help);
  else given.flag = is_list(o) ? app->add_option(flag, given.words, help) : app->add_option(flag, given.word, help);
  if (is_step(o) && !is_flag(o)) given.flag->allow_extra_args(false);
  if (o.required) given.flag->required();
  if (o.group != Group::Run) given.flag->group(std::string(kGroupNames[static_cast<size_t>(o.group)]));
  if (is_flag(o)) return;
  given.flag->type_name(value_name(o));
  if (const std::string text = value_text(CommandLine(), o); !text.empty() && text != "0" && text != "-1" && !o.required)
    given.flag->default_str(text);
}

CLI::App* add_command(CLI::App* app, const CommandInfo& command, std::deque<Given>* given) {
  CLI::App* sub = app->add_subcommand(std::string(command.name), std::string(command.help));
  sub->footer(std::string(command.example));
  for (const Option& o : kOptions)
    if (o.commands & command.command) add_option(sub, given->emplace_back(Given{&o}));
  return sub;
}

int wrong_usage(const std::string& message) {
  std::cerr << "rlxc: error[RLX0110]: " << message << "\n";
  return static_cast<int>(ExitCode::Usage);
}

int usage_error(const CLI::App& app, const CLI::ParseError& e, const std::vector<std::string>& arguments) {
  if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
  std::cerr << "rlxc: error[RLX0110]: " << e.what() << "\n";
  std::vector<std::string> owned;
  for (const CLI::App* sub : app.get_subcommands({})) owned.push_back(sub->get_name());
  if (!arguments.empty() && app.get_subcommands().empty()) {
    const std::vector<std::string_view> names(owned.begin(), owned.end());
    if (auto close = closest(arguments[0], names)) std::cerr << "  help: did you mean \"rlxc " << *close << "\"?\n";
  }
  const auto subs = app.get_subcommands();
  std::cerr << "  help: see rlxc " << (subs.empty() ? "" : subs[0]->get_name() + " ") << "--help\n";
  return static_cast<int>(ExitCode::Usage);
}

// Sets the option from the command line. Returns an error message, or an empty string.
std::string apply(const Given& given, CommandLine* line) {
  if (given.flag->count() == 0) return {};
  const Option& o = *given.option;
  std::vector<std::string> words = given.words;
  if (o.step == "size") std::erase_if(words, [](const std::string& w) { return w.find('=') == w.npos; });
  else if (is_step(o)) return {};
  if (is_flag(o)) words = {given.value ? "true" : "false"};
  else if (!is_list(o)) words = {given.word};
  begin_words(*line, o);
  for (const std::string& word : words)
    if (const std::string error = set_option(*line, o, word); !error.empty()) return std::string(long_name(o)) + " " + error;
  return {};
}

// The transforms of the command line, in its order; they replace those of other sources.
void apply_steps(const CLI::App& app, const std::deque<Given>& given, CommandLine* line) {
  std::vector<std::string> all;
  std::map<const CLI::Option*, size_t> seen;
  for (const CLI::Option* flag : app.parse_order()) {
    const auto at = std::ranges::find(given, flag, &Given::flag);
    if (at == given.end() || !is_step(*at->option)) continue;
    const Option& o = *at->option;
    const size_t i = seen[flag]++;
    const std::string word = is_flag(o) || i >= at->words.size() ? "" : at->words[i];
    if (o.group != Group::Transforms && word.find('=') != word.npos) continue;  // sizes of symbols
    all.push_back(std::string(o.step) + (o.step.empty() || word.empty() ? "" : " ") + word);
  }
  if (!all.empty()) line->transforms = std::move(all);
}

// Applies environment, configuration file, then flags. Returns an error message about a flag, or an empty string.
std::string resolve(const CLI::App& app, const std::deque<Given>& given, CommandLine* line, Diagnostics& d) {
  apply_environment(
      *line, [](const char* name) -> const char* { return std::getenv(name); }, d);
  for (const Given& g : given)
    if (long_name(*g.option) == "--config") apply(g, line);
  if (!line->config.empty() && !read_configuration(line->config, *line, d)) return {};
  for (const Given& g : given)
    if (std::string error = apply(g, line); !error.empty()) return error;
  apply_steps(app, given, line);
  return {};
}

ExitCode completion(const CLI::App& app, const std::string& shell) {
  std::vector<std::string> commands;
  for (const CLI::App* sub : app.get_subcommands({})) {
    std::string line = sub->get_name();
    for (const CLI::Option* option : sub->get_options())
      for (const std::string& flag : option->get_lnames()) line += " --" + flag;
    commands.push_back(line);
  }
  return completion_command(shell, commands);
}

ExitCode run_command_line(Subcommand command, CommandLine& line, const CLI::App& app, Terminal terminal) {
  line.need_weights = command == kRun || command == kProfile || command == kCalibrate;
  switch (command) {
    case kCompile: return compile_command(line, terminal);
    case kSpecialize:
      line.targets = line.own_target.empty() ? std::vector<std::string>{} : std::vector{line.own_target};
      return specialize_command(line, terminal);
    case kRun: return run_command(line, line, terminal);
    case kProfile: return profile_command(line, line, terminal);
    case kCalibrate: return calibrate_command(line, line, terminal);
    case kCheck: return check_command(line, line.as_json, terminal);
    case kInspect: return inspect_command(line, line.stage, line.after_each, line.as_json, terminal);
    case kTransform: return transform_command(line, line.ledger, terminal);
    case kSimplify: return simplify_command(line, terminal);
    case kPlan: return plan_command(line.csv, line.capacity, static_cast<uint64_t>(line.effort), terminal);
    case kBisect: return bisect_command(line, line.check, terminal);
    case kDiff: return diff_command(line.before, line.after, line.fail_on, line.as_json, terminal);
    case kList: return list_command(line.topic, line.as_json, line.matrix, line.markdown);
    case kSchema: return schema_command(line.name, terminal);
    case kExplain: return explain_command(line.name, terminal);
    default: return completion(app, line.name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  report_crashes(argc, argv);
  clean_up_on_signals();
  CLI::App app{
      "rlxc compiles machine-learning models: ONNX or a JSON graph in, LIR, memory plan, fusion report, pictures and kernel "
      "source out.",
      "rlxc"};
  app.set_version_flag("--version", std::string("rlxc ") + std::string(version()));
  app.footer(kExamples);
  app.require_subcommand(1);
  std::map<Subcommand, std::pair<CLI::App*, std::deque<Given>>> commands;
  for (const CommandInfo& c : kCommands) commands[c.command].first = add_command(&app, c, &commands[c.command].second);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e, {argv + 1, argv + argc});
  }
  const auto chosen = std::ranges::find_if(commands, [](const auto& c) { return c.second.first->parsed(); });

  CommandLine line;
  Diagnostics d;
  Terminal terminal{isatty(STDERR_FILENO) != 0};
  if (const std::string error = resolve(*chosen->second.first, chosen->second.second, &line, d); !error.empty())
    return wrong_usage(error);
  const RunRequest& run = line;
  if (chosen->first == kRun && run.data.empty() != run.random) return wrong_usage("run takes either --data or --random");
  if (!line.save_config.empty()) write_file(line.save_config, configuration_json(line), d);
  if (const ExitCode code = print_diagnostics(d, terminal); !d.ok()) return static_cast<int>(code);
  if (line.print_config) {
    std::cout << configuration_json(line);
    return static_cast<int>(ExitCode::Ok);
  }
  if (line.dump_to_output) line.dump = line.output + "/dump/";
  if (line.quiet) terminal.warnings = 0;
  if (line.verbose) terminal.warnings = Diagnostics::kMaxKept;
  if (chosen->first & kModelCommands) limit_process(line);
  ExitCode code = run_command_line(chosen->first, line, app, terminal);
  std::cout.flush();
  if (!std::cout && code == ExitCode::Ok) {
    std::cerr << "rlxc: error[RLX0106]: cannot write to standard output\n";
    code = ExitCode::Unwritable;
  }
  return static_cast<int>(code);
}
