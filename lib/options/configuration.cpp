#include "options/configuration.h"

#include <algorithm>

#include "options/option_text.h"
#include "support/json_form.h"
#include "support/mapped_file.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr uint64_t kMostBytes = 1 << 20;

// Returns the error, or empty.
std::string read_options(JsonReader& r, CommandLine& line) {
  if (!r.begin_object()) return {};
  for (std::string_view key; r.next_key(&key);) {
    const Option* o = find_option(key);
    const std::string name(key);
    if (!o) {
      std::vector<std::string_view> known;
      for (const Option& each : kOptions) known.push_back(each.key);
      const auto close = closest(name, known);
      return "there is no option \"" + name + "\"" + (close ? "; did you mean " + std::string(*close) + "?" : "");
    }
    if (const std::string error = read_value(line, *o, r); !error.empty()) return "option \"" + name + "\" " + error;
  }
  return {};
}

}  // namespace

bool env_flag(std::string_view value) {
  std::string s(trim(value));
  std::ranges::transform(s, s.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (s.empty() || s == "false" || s == "off" || s == "no") return false;
  return !std::ranges::all_of(s, [](char c) { return c == '0'; });
}

void apply_environment(CommandLine& line, const char* (*get)(const char*), Diagnostics& d) {
  for (const Option& o : kOptions) {
    const std::string name(o.env);
    const char* value = name.empty() ? nullptr : get(name.c_str());
    if (!value) continue;
    const std::string error = set_option(line, o, is_flag(o) ? (env_flag(value) ? "true" : "false") : std::string_view(value));
    if (!error.empty()) d.warning(Code::BadFlag, name + " is ignored: it " + error);
  }
  for (const EnvAlias& a : kEnvAliases)
    if (const char* value = get(std::string(a.name).c_str()); value && env_flag(value))
      set_option(line, *find_option(a.key), a.value);
}

void check_variable_names(const char* const* names, Diagnostics& d) {
  std::vector<std::string_view> known;
  for (const Option& o : kOptions)
    if (!o.env.empty()) known.push_back(o.env);
  for (const EnvAlias& a : kEnvAliases) known.push_back(a.name);
  for (; names && *names; ++names) {
    const std::string_view entry = *names, name = entry.substr(0, entry.find('='));
    if (!name.starts_with("RLX_") || std::ranges::find(known, name) != known.end()) continue;
    const auto close = closest(name, known);
    d.warning(Code::BadFlag, "the environment variable " + quote(name) + " means nothing to rlxc", {},
              close ? "did you mean " + std::string(*close) + "?" : "`rlxc list env` shows the variables");
  }
}

bool read_configuration(const std::string& path, CommandLine& line, Diagnostics& d) {
  const auto file = open_model_file(path, d);
  if (!file) return false;
  if (file->size() > kMostBytes) {
    d.error(Code::TooLarge, path + " is larger than 1 MiB");
    return false;
  }
  const std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
  JsonReader r(text);
  std::string format, wrong;
  std::optional<JsonFault> fault = version_fault(text);
  if (r.begin_object())
    for (std::string_view key; wrong.empty() && r.next_key(&key);) {
      if (key == "format") r.string(&format);
      else if (key == "options") wrong = read_options(r, line);
      else r.skip();
    }
  if (wrong.empty() && !fault) fault = form_fault(text);  // after the options, whose errors say more
  if (fault) {
    d.error(Code::BadJson, path + ": " + LineIndex(text).place(fault->at) + ": " + fault->message);
    return false;
  }
  if (!wrong.empty()) {
    d.error(Code::BadFlag, path + ": " + wrong);
    return false;
  }
  r.finish();
  if (!r.ok()) d.error(Code::BadJson, path + ": " + LineIndex(text).place(r.error_at()) + ": " + r.error());
  else if (format != "rlxc-config" && format != "rlxc-manifest")
    d.error(Code::BadJson, path + " lacks \"format\": \"rlxc-config\"");
  return d.ok();
}

std::string manifest_options(const CommandLine& line) {
  std::string text;
  JsonWriter w(text);
  w.begin_object();
  for (const Option& o : kOptions) {
    if (!o.in_manifest) continue;
    w.key(o.key);
    write_value(w, line, o, true);
  }
  w.end_object().flush();
  return text;
}

std::string configuration_json(const CommandLine& line) {
  std::string text;
  JsonWriter w(text);
  w.begin_object().key("$schema").string("config.schema.json").key("format").string("rlxc-config");
  w.key("format_version").string("1.0").key("options").begin_object();
  for (const Option& o : kOptions) {
    if (o.key.empty() || is_default(line, o)) continue;
    w.key(o.key);
    write_value(w, line, o, false);
  }
  w.end_object().end_object().finish();
  return text;
}

}  // namespace rlxc
