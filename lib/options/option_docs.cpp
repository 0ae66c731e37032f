#include "options/option_docs.h"

#include <algorithm>

#include "options/option_text.h"
#include "support/text.h"

namespace rlxc {
namespace {

// "--target TARGET, -t", or "MODEL" for a positional argument.
std::string usage(const Option& o) {
  if (o.flag.empty()) return {};
  if (!o.flag.starts_with('-') && !o.flag.starts_with('!')) return std::string(o.value.empty() ? o.flag : o.value);
  std::string text(long_name(o));
  if (!is_flag(o)) text += " " + (o.choices.empty() || !o.value.empty() ? value_name(o) : "NAME");
  if (const size_t comma = o.flag.find(','); comma != o.flag.npos) text += ", " + std::string(o.flag.substr(comma + 1));
  return text;
}

std::string commands_of(const Option& o) {
  std::vector<std::string_view> names;
  for (const CommandInfo& c : kCommands)
    if (o.commands & c.command) names.push_back(c.name);
  return join(names, ", ");
}

std::string meaning(const Option& o) {
  return std::string(o.help) + (o.choices.empty() ? "" : ": " + join(choice_names(o), ", "));
}

std::string escaped(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + escaped(text) + "`"; }

void add_row(std::string* out, const std::vector<std::string>& cells) { *out += "| " + join(cells, " | ") + " |\n"; }

}  // namespace

std::vector<std::vector<std::string>> environment_rows() {
  std::vector<std::vector<std::string>> rows;
  for (const Option& o : kOptions) {
    if (o.env.empty()) continue;
    const std::string value(value_name(o));
    rows.push_back({std::string(o.env),
                    value.empty()        ? "flag"
                    : !o.choices.empty() ? join(choice_names(o), "|")
                                         : value,
                    std::string(o.help)});
  }
  for (const EnvAlias& a : kEnvAliases) rows.push_back({std::string(a.name), "flag", std::string(a.help)});
  return rows;
}

std::vector<std::vector<std::string>> option_rows() {
  const CommandLine defaults;
  std::vector<std::vector<std::string>> rows;
  for (const Option& o : kOptions)
    rows.push_back({usage(o), std::string(o.key), std::string(o.env), value_text(defaults, o), commands_of(o), meaning(o)});
  return rows;
}

std::string options_markdown() {
  const CommandLine defaults;
  std::string out =
      "# Options\n\n"
      "Made by `rlxc list options --markdown` from the table that the program uses (`lib/options/option_table.h`).\n\n"
      "A flag wins over a configuration file (`--config FILE`), and the file wins over the environment. A configuration file is "
      "JSON\n"
      "(`rlxc schema config`); `--save-config FILE` writes one:\n\n"
      "    {\"format\": \"rlxc-config\", \"options\": {\"precision\": \"automixed\", \"bind\": {\"batch\": 1}, \"range\": "
      "{\"seq\": [1, 2048]}}}\n\n"
      "Entries of `bind`, `range`, `bound` and `disable-pass` add to those of the sources before; other lists replace them. The\n"
      "column *manifest* marks the options that change what a compile writes; `manifest.json` has their values under the same "
      "keys.\n";
  for (size_t g = 0; g < std::size(kGroupNames); ++g) {
    const bool command = static_cast<Group>(g) == Group::Run;
    out += "\n## " + std::string(command ? "Of single commands" : kGroupNames[g]) + "\n\n";
    const std::vector<std::string> header =
        command ? std::vector<std::string>{"option", "default", "commands", "meaning"}
                : std::vector<std::string>{"option", "key", "environment", "default", "manifest", "commands", "meaning"};
    add_row(&out, header);
    out += "|";
    for (size_t i = 0; i < header.size(); ++i) out += "---|";
    out += "\n";
    for (const Option& o : kOptions) {
      if (static_cast<size_t>(o.group) != g) continue;
      const std::string value = code(value_text(defaults, o)), help = escaped(meaning(o));
      if (command) add_row(&out, {code(usage(o)), value, commands_of(o), help});
      else
        add_row(&out, {code(usage(o)), code(std::string(o.key)), code(std::string(o.env)), value, o.in_manifest ? "yes" : "",
                       commands_of(o), help});
    }
  }
  out += "\n## Further environment variables\n\n";
  add_row(&out, {"variable", "meaning"});
  out += "|---|---|\n";
  for (const EnvAlias& a : kEnvAliases) add_row(&out, {code(std::string(a.name)), std::string(a.help)});
  return out;
}

std::string configuration_schema() {
  const CommandLine defaults;
  std::string text;
  JsonWriter w(text);
  w.begin_object().key("$schema").string("https://json-schema.org/draft/2020-12/schema").key("$id").string("config.schema.json");
  w.key("title").string("Options of rlxc: what --config reads and --save-config writes");
  w.key("type").string("object").key("required").begin_array(JsonLayout::Line).string("format").end_array();
  w.key("properties").begin_object();
  w.key("$schema").begin_object(JsonLayout::Line).key("type").string("string").end_object();
  w.key("format").begin_object(JsonLayout::Line).key("const").string("rlxc-config").end_object();
  w.key("format_version").begin_object(JsonLayout::Line).key("$ref").string("common.schema.json#/$defs/version").end_object();
  w.key("options").begin_object(JsonLayout::Line).key("$ref").string("#/$defs/options").end_object();
  w.end_object().key("additionalProperties").boolean(false);
  w.key("$defs").begin_object().key("options").begin_object().key("type").string("object").key("properties").begin_object();
  for (const Option& o : kOptions) {
    if (o.key.empty()) continue;
    w.key(o.key).begin_object(JsonLayout::Line);
    w.key("description").string((o.flag.starts_with('!') ? "false: " : "") + meaning(o));
    write_value_schema(w, o);
    w.key("default");
    write_value(w, defaults, o, false);
    w.end_object();
  }
  w.end_object().key("additionalProperties").boolean(false).end_object().end_object().end_object().finish();
  return text;
}

}  // namespace rlxc
