// The command line: maps options to flags, prints diagnostics, sets the exit code. Everything else is in lib/commands.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdlib>
#include <deque>
#include <iostream>

#include "commands/commands.h"
#include "commands/progress_line.h"
#include "driver/limits.h"
#include "driver/reproducer.h"
#include "options/configuration.h"
#include "options/help.h"
#include "options/option_text.h"
#include "support/foreign_text.h"
#include "support/heap.h"
#include "support/output_file.h"
#include "support/schemas.h"
#include "support/temporary_folder.h"
#include "support/text.h"

extern char** environ;

namespace {

using namespace rlxc;

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
  const std::string flag(o.flag);
  if (is_flag(o) && is_step(o)) given.flag = app->add_flag(flag);
  else if (is_flag(o)) given.flag = app->add_flag(flag, given.value);
  else given.flag = is_list(o) ? app->add_option(flag, given.words) : app->add_option(flag, given.word);
  if (is_step(o) && !is_flag(o)) given.flag->allow_extra_args(false);
  if (o.required) given.flag->required();
}

// Whether a word may be a name of the option: --NAME, --NAME=VALUE, -N, or -N within a bundle of flags.
bool is_named(std::string_view name, const std::string& word) {
  if (name.starts_with("--")) return word.starts_with(name) && (word.size() == name.size() || word[name.size()] == '=');
  return word.starts_with('-') && !word.starts_with("--") && word.find(name[1], 1) != word.npos;
}

// CLI11 compares each option with all before it, for longer than a small model takes to compile: only options that the arguments
// may name are added, and those that need no name.
bool may_be_given(const Option& o, const std::vector<std::string>& arguments) {
  if (o.required) return true;
  for (const std::string_view name : split(o.flag.substr(o.flag.starts_with('!')), ',')) {
    if (!name.starts_with('-')) return true;
    for (const std::string& word : arguments)
      if (is_named(name, word)) return true;
  }
  return false;
}

void add_options(CLI::App* sub, Subcommand command, const std::vector<std::string>& arguments, std::deque<Given>* given) {
  for (const Option& o : kOptions)
    if ((o.commands & command) && may_be_given(o, arguments)) add_option(sub, given->emplace_back(Given{&o}));
}

int wrong_usage(const std::string& message) {
  std::cerr << "rlxc: error[RLX0110]: " << message << "\n";
  return static_cast<int>(ExitCode::Usage);
}

size_t terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return std::clamp<size_t>(size.ws_col, 60, 140);
  return 100;
}

// Prints help if the arguments ask for it.
bool print_help(const std::vector<std::string>& arguments) {
  const CommandInfo* command = nullptr;
  bool asked = arguments.empty() || arguments[0] == "help";
  for (const std::string& word : arguments) {
    if (word == "--") break;
    if (!command) command = find_command(word);
    asked |= word == "--help" || word == "-h";
  }
  if (!asked) return false;
  std::cout << (command ? command_help(*command, terminal_width()) : program_help(terminal_width()));
  return true;
}

// The flags on the command line that the command does not have, with advice.
std::vector<std::pair<std::string, std::string>> unknown_flags(const CommandInfo& command,
                                                               const std::vector<std::string>& arguments) {
  std::vector<std::string_view> own{"--help", "-h"}, others;
  for (const Option& o : kOptions)
    for (std::string_view s : split(o.flag.substr(o.flag.starts_with('!')), ','))
      if (s.starts_with('-')) ((o.commands & command.command) ? own : others).push_back(s);
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& word : arguments) {
    if (word == "--") break;
    const std::string flag = word.substr(0, word.find('='));
    const bool is_flag_word =
        flag.size() > 1 && flag[0] == '-' && !std::isdigit(static_cast<unsigned char>(flag[1])) && flag[1] != '.';
    const bool bundled = flag.size() > 2 && flag[1] != '-' && std::ranges::find(own, flag.substr(0, 2)) != own.end();
    if (!is_flag_word || bundled || std::ranges::find(own, flag) != own.end()) continue;
    const auto close = closest(flag, own);
    std::string advice = close ? "did you mean " + std::string(*close) + "?" : "";
    if (!close && std::ranges::find(others, flag) != others.end()) {
      std::vector<std::string_view> commands;
      for (const CommandInfo& c : kCommands)
        for (const Option& o : kOptions)
          if ((o.commands & c.command) && long_name(o) == flag && (commands.empty() || commands.back() != c.name))
            commands.push_back(c.name);
      advice = "it is a flag of " + join(commands, ", ");
    }
    out.emplace_back(flag, advice);
  }
  return out;
}

// Commands of similar tools, and what does the same here.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"man", "manual COMMAND"},      {"version", "--version"},    {"html", "report OUTDIR"},
    {"viz", "report OUTDIR"},       {"compare", "diff OLD NEW"}, {"config", "compile --print-config"},
    {"convert", "compile MODEL"},   {"build", "compile MODEL"},  {"benchmark", "bench MODEL"},
    {"optimize", "simplify MODEL"}, {"validate", "check MODEL"}, {"quantize", "compile MODEL --weights int8"}};

std::string advice_on_command(std::string_view word) {
  const auto it = std::ranges::find(kElsewhere, word, &std::pair<std::string_view, std::string_view>::first);
  if (it != std::end(kElsewhere)) return "\"rlxc " + std::string(it->second) + "\" does that";
  std::vector<std::string_view> names;
  for (const CommandInfo& c : kCommands) names.push_back(c.name);
  const auto close = closest(word, names);
  return close ? "did you mean \"rlxc " + std::string(*close) + "\"?" : "";
}

// -target for --target: a short flag would take the rest of the word as its value.
std::string with_one_dash(const CommandInfo& command, const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    if (word == "--") break;
    if (word.size() < 3 || word[0] != '-' || word[1] == '-') continue;
    const std::string flag = "-" + word.substr(0, word.find('='));
    for (const Option& o : kOptions)
      if ((o.commands & command.command) && long_name(o) == flag) return flag;
  }
  return {};
}

// A word that names a model where a command is expected.
bool is_model_file(std::string_view word) {
  return word.ends_with(".onnx") || word.ends_with(".gguf") || word.ends_with(".json") || word.ends_with(".pb");
}

int usage_error(const CLI::ParseError& e, const std::vector<std::string>& arguments) {
  const CommandInfo* command = arguments.empty() ? nullptr : find_command(arguments[0]);
  const auto flags = command ? unknown_flags(*command, arguments) : std::vector<std::pair<std::string, std::string>>{};
  for (const auto& [flag, advice] : flags) {
    std::cerr << "rlxc: error[RLX0110]: unknown flag " << quote(flag) << "\n";
    if (!advice.empty()) std::cerr << "  help: " << advice << "\n";
  }
  if (!command && !arguments.empty() && !arguments[0].starts_with('-')) {
    std::cerr << "rlxc: error[RLX0110]: there is no command " << quote(arguments[0]) << "\n";
    if (is_model_file(arguments[0])) std::cerr << "  help: rlxc compile " << ForeignText(arguments[0]).shell_word() << "\n";
    else if (const std::string advice = advice_on_command(arguments[0]); !advice.empty())
      std::cerr << "  help: " << advice << "\n";
  } else if (!command && !arguments.empty()) {
    std::cerr << "rlxc: error[RLX0110]: the flag " << quote(arguments[0]) << " is before the command; flags follow it\n";
  } else if (flags.empty()) {
    std::cerr << "rlxc: error[RLX0110]: " << terminal_text(e.what(), "  ") << "\n";
    const bool takes_model = command && (command->command & kModelCommands);
    if (takes_model && std::ranges::count_if(arguments, is_model_file) > 1)
      std::cerr << "  help: a command takes one model; examples/zoo compiles many\n";
  }
  std::cerr << "  help: see rlxc " << (command ? std::string(command->name) + " " : "") << "--help\n";
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
  if (o.comma_separated) words = {join(words, ",")};
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
  check_variable_names(environ, d);
  for (const Given& g : given)
    if (long_name(*g.option) == "--config") apply(g, line);
  if (!line->config.empty() && !read_configuration(line->config, *line, d)) return {};
  for (const Given& g : given)
    if (std::string error = apply(g, line); !error.empty()) return error;
  apply_steps(app, given, line);
  return {};
}

ExitCode run_command_line(Subcommand command, CommandLine& line, Terminal terminal) {
  const bool random_run = command == kRun && line.RunRequest::random;
  line.need_weights = (command & (kCalibrate | kTrain)) || (command == kRun && !random_run);
  line.need_weights |= (command & (kTransform | kSimplify | kExtract)) && line.embed_weights;
  line.allow_missing_weights |= random_run || (command & (kProfile | kBench | kSimplify | kTune));
  switch (command) {
    case kInfo: return info_command(line, line.as_json, terminal);
    case kBench: return bench_command(line, line, line, line.junit, terminal);
    case kExtract: return extract_command(line, line.cut_inputs, line.cut_outputs, terminal);
    case kReduce: return reduce_command(line, line.check, terminal);
    case kEval: return eval_command(line.name, line.sizes_of_expression, terminal);
    case kReport: return report_command(line.before, line.after, line.output, terminal);
    case kManual: return manual_command(line.name, terminal);
    case kCompile: return compile_command(line, terminal);
    case kSpecialize:
      line.targets = line.own_target.empty() ? std::vector<std::string>{} : std::vector{line.own_target};
      return specialize_command(line, terminal);
    case kRun: return run_command(line, line, line, terminal);
    case kProfile: return profile_command(line, line, terminal);
    case kTune: return tune_command(line, line, terminal);
    case kCalibrate: return calibrate_command(line, line, terminal);
    case kCheck: return check_command(line, line, terminal);
    case kInspect: return inspect_command(line, line.stage, line.after_each, line.as_json, terminal);
    case kTransform: return transform_command(line, line.ledger, terminal);
    case kSimplify: return simplify_command(line, terminal);
    case kTrain: return train_command(line, line, terminal);
    case kCache: return cache_command(line.before, line.cache_limit, terminal);
    case kPlan: return plan_command(line.csv, line.capacity, static_cast<uint64_t>(line.effort), terminal);
    case kBisect: return bisect_command(line, line.check, terminal);
    case kDiff: return diff_command(line.before, line.after, line.fail_on, line, terminal);
    case kList: return list_command(line.topic, line.as_json, line.matrix, line.markdown);
    case kSchema: return schema_command(line.name, terminal);
    case kExplain: return explain_command(line.name, terminal);
    default: return completion_command(line.name);
  }
}

// Output that is lost is an error, whatever else the command found.
int finish(ExitCode code) {
  std::cout.flush();
  if (!std::cout) {
    std::cerr << "rlxc: error[RLX0106]: cannot write to standard output\n";
    code = ExitCode::Unwritable;
  }
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  report_crashes(argc, argv);
  clean_up_on_signals();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (print_help(arguments)) return finish(arguments.empty() ? ExitCode::Usage : ExitCode::Ok);
  if (arguments[0] == "--version") {
    std::cout << "rlxc " << version() << "\n" << build_description() << "\n" << build_features() << "\n";
    return finish(ExitCode::Ok);
  }
  CLI::App app;
  app.require_subcommand(1);
  const CommandInfo* const command = find_command(arguments[0]);
  if (const std::string flag = command ? with_one_dash(*command, arguments) : ""; !flag.empty())
    return wrong_usage("unknown flag " + quote(flag.substr(1)) + "\n  help: did you mean " + flag + "?");
  CLI::App* const sub = command ? app.add_subcommand(std::string(command->name)) : nullptr;
  std::deque<Given> given;
  if (command) add_options(sub, command->command, arguments, &given);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return usage_error(e, arguments);
  }
  const Subcommand chosen = command->command;

  CommandLine line;
  Diagnostics d;
  Terminal terminal{isatty(STDERR_FILENO) != 0};
  if (const std::string error = resolve(*sub, given, &line, d); !error.empty()) return wrong_usage(error);
  const RunRequest& run = line;
  if (chosen == kRun && run.data.empty() != run.random) return wrong_usage("run takes either --data or --random");
  if (line.quiet && line.verbose) return wrong_usage("--quiet and --verbose contradict each other");
  if (!line.save_config.empty()) write_file(line.save_config, configuration_json(line), d);
  if (const ExitCode code = print_diagnostics(d, terminal); !d.ok()) return static_cast<int>(code);
  if (line.print_config) {
    std::cout << configuration_json(line);
    return finish(ExitCode::Ok);
  }
  if (line.dump_to_output) line.dump = line.output + "/dump/";
  if (line.quiet) terminal.warnings = 0;
  if (line.verbose) terminal.warnings = Diagnostics::kMaxKept;
  if (chosen & kModelCommands) limit_process(line);
  reserve_heap(line.max_memory.has_value());
  std::optional<ProgressLine> progress;
  constexpr uint32_t kQuietWorkers =
      kCompile | kSpecialize | kRun | kProfile | kBench | kTune | kCalibrate | kCheck | kTransform | kSimplify;
  if ((chosen & kQuietWorkers) && terminal.err_is_tty && !line.quiet && !line.verbose) progress.emplace();
  ExitCode code = run_command_line(chosen, line, terminal);
  progress.reset();
  return finish(code);
}
