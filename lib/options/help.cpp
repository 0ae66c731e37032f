#include "options/help.h"

#include <algorithm>

#include "options/option_text.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr std::string_view kAbout =
    "rlxc compiles machine-learning models: it reads ONNX, GGUF, StableHLO or a JSON graph, and writes a package of kernels for "
    "a target "
    "with "
    "reports of what it did.";
constexpr std::string_view kExitCodes =
    "0 ok, 1 a finding, 2 usage, 3 input unreadable, 4 input invalid, 5 unsupported, 6 output not writable, 7 resource limit, "
    "8 nothing differs but expected outputs are missing, 9 a program that runs the result is not installed, 70 internal error";
constexpr size_t kHelpColumn = 30;

struct Section {
  std::string_view title;
  uint32_t commands;
};
constexpr Section kSections[] = {
    {"Look at a model", kInfo | kCheck | kInspect},
    {"Compile", kCompile | kSpecialize},
    {"Run and measure", kRun | kBench | kProfile | kTune},
    {"Compare and report", kReport | kDiff},
    {"Change a model", kTransform | kSimplify | kExtract | kCalibrate | kTrain},
    {"Find a fault", kBisect | kReduce},
    {"Tools and tables", kPlan | kEval | kCache | kList | kExplain | kSchema | kManual | kCompletion},
};

bool is_positional(const Option& o) { return !o.flag.empty() && !o.flag.starts_with('-') && !o.flag.starts_with('!'); }

std::string positional_name(const Option& o) {
  std::string name(o.value.empty() ? o.flag : o.value);
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return o.required ? name : "[" + name + "]";
}

// "-t, --target TARGET".
std::string spelling(const Option& o) {
  if (is_positional(o)) return positional_name(o);
  std::string text;
  if (const size_t comma = o.flag.find(','); comma != o.flag.npos) text = std::string(o.flag.substr(comma + 1)) + ", ";
  text += long_name(o);
  if (const std::string value = value_name(o); !value.empty()) text += " " + value;
  return text;
}

std::string meaning_of(const Option& o) {
  std::string text = help_text(o);
  const CommandLine defaults;
  const std::string value = value_text(defaults, o);
  if (!is_flag(o) && !value.empty() && value != "0" && value != "-1" && !o.required && o.help.find("default") == o.help.npos)
    text += " (default: " + value + ")";
  if (!o.env.empty()) text += " [" + std::string(o.env) + "]";
  return text;
}

std::string row(const std::string& left, std::string_view right, size_t width) {
  std::string line = "  " + left;
  if (line.size() + 2 > kHelpColumn) line += "\n" + std::string(kHelpColumn, ' ');
  else line.resize(kHelpColumn, ' ');
  return line + wrapped(right, width - std::min(width - 20, kHelpColumn), kHelpColumn) + "\n";
}

// "rlxc compile [OPTIONS] MODEL".
std::string usage_of(const CommandInfo& c) {
  std::string text = "rlxc " + std::string(c.name) + " [OPTIONS]";
  for (const Option& o : kOptions)
    if ((o.commands & c.command) && is_positional(o))
      text += " " + positional_name(o) + (is_list(o) || !o.comma_separated ? "" : "...");
  return text;
}

// A text for troff: backslashes, hyphens of options and leading dots escaped.
std::string troff(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += std::string("\\&") + c;
    else out += c;
  }
  return out;
}

// The words that complete the value of an option; empty: files.
std::vector<std::string> value_words(const Option& o, const CompletionWords& known) {
  std::vector<std::string> words;
  for (std::string_view name : choice_names(o))
    if (!name.empty() && !name.ends_with(":FILE")) words.emplace_back(name);
  if (!words.empty()) {
    if (long_name(o) == "--emit") words.emplace_back("svg");
    return words;
  }
  const std::string value = value_name(o);
  const auto it = known.find(value.substr(0, value.find(',')));
  return it == known.end() ? words : it->second;
}

std::vector<std::string_view> spellings(const Option& o) {
  if (o.flag.empty() || is_positional(o)) return {};
  return split(o.flag.substr(o.flag.starts_with('!')), ',');
}

std::string quoted_for_shell(std::string_view s) {
  std::string out = "'";
  for (char c : s) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash_script(const CompletionWords& known) {
  std::string names, cases, values;
  for (const CommandInfo& c : kCommands) {
    names += (names.empty() ? "" : " ") + std::string(c.name);
    std::string flags = "--help", positional;
    for (const Option& o : kOptions) {
      if (!(o.commands & c.command)) continue;
      const std::vector<std::string> words = value_words(o, known);
      if (is_positional(o) && !words.empty()) positional += " " + join(words, " ");
      for (std::string_view s : spellings(o)) {
        flags += " " + std::string(s);
        if (!words.empty())
          values += "    " + std::string(c.name) + ":" + std::string(s) + ") words='" + join(words, " ") + "';;\n";
      }
    }
    cases += "    " + std::string(c.name) + ") words='" + flags + positional + "';;\n";
  }
  return "_rlxc() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' head=''\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '" +
         names +
         "' -- \"$cur\"))\n    return\n  fi\n"
         "  if [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  if [ \"$cur\" = = ]; then cur=''; fi\n"
         "  case ${COMP_WORDS[1]}:$prev in\n" +
         values +
         "  esac\n"
         "  if [ -n \"$words\" ]; then\n"
         "    case $cur in *,*) head=${cur%,*},; cur=${cur##*,};; esac\n"
         "    COMPREPLY=($(compgen -P \"$head\" -W \"$words\" -- \"$cur\"))\n    return\n  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n}\n"
         "complete -o filenames -F _rlxc rlxc\n";
}

std::string zsh_script(const CompletionWords& known) {
  const auto escape = [](std::string_view s) {
    std::string out;
    for (char c : s) out += c == '[' || c == ']' || c == ':' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out;
  };
  std::string commands, cases;
  for (const CommandInfo& c : kCommands) {
    commands += "    " + quoted_for_shell(std::string(c.name) + ":" + escape(c.help)) + "\n";
    cases += "    " + std::string(c.name) + ")\n      _arguments '--help[print help]'";
    for (const Option& o : kOptions) {
      if (!(o.commands & c.command)) continue;
      const std::vector<std::string> words = value_words(o, known);
      const std::string action = words.empty()       ? "_files"
                                 : o.comma_separated ? "_sequence compadd - " + join(words, " ")
                                                     : "(" + join(words, " ") + ")";
      const std::string value = is_flag(o) ? "" : ":" + escape(value_name(o)) + ":" + action;
      if (is_positional(o))
        cases += " \\\n        " + quoted_for_shell((o.required ? ":" : "::") + escape(o.flag) + ":" + action);
      for (std::string_view s : spellings(o))
        cases +=
            " \\\n        " + quoted_for_shell((is_list(o) ? "*" : "") + std::string(s) + "[" + escape(o.help) + "]" + value);
    }
    cases += "\n      ;;\n";
  }
  return "#compdef rlxc\n_rlxc() {\n  local -a commands\n  commands=(\n" + commands +
         "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
         "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n" +
         cases + "  esac\n}\nif [ \"$funcstack[1]\" = _rlxc ]; then _rlxc \"$@\"; else compdef _rlxc rlxc; fi\n";
}

std::string fish_script(const CompletionWords& known) {
  std::string out;
  for (const CommandInfo& c : kCommands) {
    out += "complete -c rlxc -n __fish_use_subcommand -f -a " + std::string(c.name) + " -d " + quoted_for_shell(c.help) + "\n";
    const std::string when = "complete -c rlxc -n '__fish_seen_subcommand_from " + std::string(c.name) + "'";
    for (const Option& o : kOptions) {
      if (!(o.commands & c.command)) continue;
      const std::vector<std::string> words = value_words(o, known);
      const std::string values = words.empty() ? "" : " -xa " + quoted_for_shell(join(words, " "));
      if (is_positional(o)) {
        if (!words.empty()) out += when + values + "\n";
        continue;
      }
      std::string flags;
      for (std::string_view s : spellings(o))
        flags += s.starts_with("--") ? " -l " + std::string(s.substr(2)) : " -s " + std::string(s.substr(1));
      if (!flags.empty())
        out += when + flags + (is_flag(o) ? "" : words.empty() ? " -r" : values) + " -d " + quoted_for_shell(o.help) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  for (std::string_view word : split(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

const CommandInfo* find_command(std::string_view name) {
  const auto* it = std::ranges::find(kCommands, name, &CommandInfo::name);
  return it == std::end(kCommands) ? nullptr : it;
}

std::string program_help(size_t width) {
  std::string out = wrapped(kAbout, width, 0) + "\n\nUsage: rlxc COMMAND [OPTIONS] ...\n";
  for (const Section& s : kSections) {
    out += "\n" + std::string(s.title) + "\n";
    for (const CommandInfo& c : kCommands)
      if (s.commands & c.command) out += row(std::string(c.name), c.help, width);
  }
  out += "\nOptions\n" + row("-h, --help", "print this help, or that of a command: rlxc COMMAND --help", width) +
         row("--version", "print the version", width);
  out += "\n" + wrapped("Exit codes: " + std::string(kExitCodes) + ".", width, 2) + "\n";
  return out;
}

std::string command_help(const CommandInfo& c, size_t width) {
  std::string about(c.help);
  about[0] = static_cast<char>(about[0] - 32);
  std::string out = wrapped(about + ".", width, 0) + "\n\nUsage: " + usage_of(c) + "\n";
  const auto group = [&](std::string_view title, auto belongs) {
    std::string rows;
    for (const Option& o : kOptions)
      if ((o.commands & c.command) && !o.flag.empty() && belongs(o)) rows += row(spelling(o), meaning_of(o), width);
    if (!rows.empty()) out += "\n" + std::string(title) + "\n" + rows;
  };
  group("Arguments", [](const Option& o) { return is_positional(o); });
  group("Options of this command", [](const Option& o) { return o.group == Group::Run && !is_positional(o); });
  for (size_t g = 0; g < std::size(kGroupNames); ++g)
    if (static_cast<Group>(g) != Group::Run)
      group(kGroupNames[g], [&](const Option& o) { return static_cast<size_t>(o.group) == g && !is_positional(o); });
  if (!c.example.empty()) out += "\n" + std::string(c.example) + "\n";
  return out;
}

std::string manual_page(const CommandInfo* command, std::string_view version) {
  const std::string name = command ? "rlxc-" + std::string(command->name) : "rlxc";
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  std::string out = ".TH " + title + " 1 \"\" \"rlxc " + std::string(version) + "\"\n.SH NAME\n" + troff(name) + " \\- " +
                    troff(command ? command->help : "compiler for machine-learning models") + "\n.SH SYNOPSIS\n";
  const auto term = [&](const std::string& left, std::string_view right) {
    out += ".TP\n.B " + troff(left) + "\n" + troff(right) + "\n";
  };
  if (!command) {
    out += ".B rlxc\nCOMMAND [OPTIONS] ...\n.SH DESCRIPTION\n" + troff(kAbout) + "\n";
    for (const Section& s : kSections) {
      out += ".SS " + troff(s.title) + "\n";
      for (const CommandInfo& c : kCommands)
        if (s.commands & c.command) term(std::string(c.name), c.help);
    }
  } else {
    out += ".B " + troff(usage_of(*command)) + "\n.SH OPTIONS\n";
    for (const Option& o : kOptions)
      if ((o.commands & command->command) && !o.flag.empty()) term(spelling(o), meaning_of(o));
    if (!command->example.empty()) {
      const size_t colon = command->example.find(':');
      out += ".SH EXAMPLES\n.nf\n" + troff(trim(command->example.substr(colon + 1))) + "\n.fi\n";
    }
  }
  return out + ".SH EXIT STATUS\n" + troff(kExitCodes) + "\n" + (command ? ".SH SEE ALSO\nrlxc(1)\n" : "");
}

std::string completion_script(std::string_view shell, const CompletionWords& known) {
  if (shell == "zsh") return zsh_script(known);
  return shell == "fish" ? fish_script(known) : bash_script(known);
}

}  // namespace rlxc
