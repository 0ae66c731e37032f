#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "options/configuration.h"
#include "options/option_docs.h"
#include "options/option_text.h"
#include "support/golden.h"
#include "support/schema.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

// A valid word for the option that differs from its default.
std::string other_value(const Option& o) {
  const CommandLine defaults;
  for (const char* word : {"true", "false", "a=1", "a=1..2", "a=b", "4096", "1", "2", "20", "0.5", "60", "text"})
    if (CommandLine line; set_option(line, o, word).empty() && value_text(line, o) != value_text(defaults, o)) return word;
  for (std::string_view word : choice_names(o))
    if (CommandLine line; set_option(line, o, word).empty() && value_text(line, o) != value_text(defaults, o))
      return std::string(word);
  return {};
}

CommandLine configured(const std::string& json, Diagnostics& d) {
  const TempDir dir;
  std::ofstream(dir / "config.json", std::ios::binary) << json;
  CommandLine line;
  read_configuration(dir / "config.json", line, d);
  return line;
}

}  // namespace

TEST_CASE("flags of the environment: several zeros are false") {
  for (const char* off : {"", " ", "0", "00", "000", "false", "OFF", " no "}) CHECK_FALSE(env_flag(off));
  for (const char* on : {"1", "true", "yes", "2", "on", "00x"}) CHECK(env_flag(on));
}

TEST_CASE("variables set options; unset ones leave them, and malformed ones are named") {
  CommandLine o;
  Diagnostics d;
  apply_environment(
      o,
      [](const char* name) -> const char* {
        const std::string_view n(name);
        if (n == "RLX_IR_DUMP") return "dumps/";
        if (n == "RLX_ARENA_ALIGN") return "128";
        if (n == "RLX_DISABLE_CSE") return "1";
        if (n == "RLX_DISABLE_SCCP") return "0";
        if (n == "RLX_KERNEL_DISPATCH") return "ForceCommon";
        if (n == "RLX_BISECT_LIMIT") return "many";
        return nullptr;
      },
      d);
  CHECK(o.dump == "dumps/");
  CHECK(o.alignment == 128);
  CHECK(o.kernel_dispatch == KernelDispatch::Common);
  CHECK(o.disabled_passes.contains("common_subexpression_elimination"));
  CHECK_FALSE(o.disabled_passes.contains("sccp"));
  CHECK_FALSE(o.time_passes);
  CHECK(o.bisect_limit == -1);
  CHECK(d.text().find("RLX_BISECT_LIMIT is ignored") != std::string::npos);
}

TEST_CASE("keys, flags of a command and variables of the table are unique") {
  std::set<std::string_view> keys, variables;
  std::set<std::pair<uint32_t, std::string_view>> flags;
  for (const Option& o : kOptions) {
    INFO(std::string(long_name(o)));
    CHECK((o.key.empty() || keys.insert(o.key).second));
    CHECK((o.env.empty() || variables.insert(o.env).second));
    for (const CommandInfo& c : kCommands)
      if (o.commands & c.command) CHECK(flags.emplace(c.command, long_name(o)).second);
    CHECK((o.commands != 0) == !o.flag.empty());
    CHECK_FALSE(o.help.empty());
  }
  for (const EnvAlias& a : kEnvAliases) {
    CHECK(variables.insert(a.name).second);
    REQUIRE(find_option(a.key));
    CommandLine line;
    CHECK(set_option(line, *find_option(a.key), a.value).empty());
  }
}

TEST_CASE("every option is set from a word, and comes back from a configuration file") {
  CommandLine line;
  for (const Option& o : kOptions) {
    INFO(std::string(long_name(o)));
    const std::string word = other_value(o);
    REQUIRE_FALSE(word.empty());
    begin_words(line, o);
    CHECK(set_option(line, o, word).empty());
    CHECK_FALSE(is_default(line, o));
  }
  const std::string json = configuration_json(line);
  check_schema("config", json);
  Diagnostics d;
  const CommandLine again = configured(json, d);
  CHECK_MESSAGE(d.ok(), d.text());
  for (const Option& o : kOptions)
    if (!o.key.empty()) CHECK_MESSAGE(value_text(again, o) == value_text(line, o), std::string(o.key));
  CHECK(configuration_json(again) == json);
}

TEST_CASE("the defaults of all options are valid in a configuration file") {
  const CommandLine defaults;
  std::string text;
  JsonWriter w(text);
  w.begin_object().key("format").string("rlxc-config").key("options").begin_object();
  for (const Option& o : kOptions) {
    if (o.key.empty()) continue;
    w.key(o.key);
    write_value(w, defaults, o, false);
  }
  w.end_object().end_object().finish();
  check_schema("config", text);
  Diagnostics d;
  const CommandLine line = configured(text, d);
  CHECK_MESSAGE(d.ok(), d.text());
  for (const Option& o : kOptions) CHECK_MESSAGE(is_default(line, o), std::string(long_name(o)));
}

TEST_CASE("values that do not fit are refused, and nothing changes") {
  constexpr std::pair<std::string_view, const char*> kBad[] = {{"bind", "batch"},       {"bind", "=3"},
                                                               {"bind", "a=-1"},        {"bind", "a=1,b"},
                                                               {"range", "a=3..2"},     {"range", "a=3"},
                                                               {"state", "a="},         {"align", "48"},
                                                               {"align", "-1"},         {"align", "18446744073709551616"},
                                                               {"max-binding", "4095"}, {"precision", "half"},
                                                               {"element-bytes", "3"},  {"emit", "lir,pln"},
                                                               {"max-arena", "1e6"},    {"fast-math", "maybe"},
                                                               {"hir-policy", "Direct"}};
  for (const auto& bad : kBad) {
    const std::string key(bad.first), word(bad.second);
    const Option& o = *find_option(key);
    CommandLine line;
    CHECK_MESSAGE(set_option(line, o, word).starts_with("takes "), std::string(key), " ", word);
    CHECK(is_default(line, o));
  }
  CommandLine line;
  CHECK(set_option(line, *find_option("emit"), "lir,pln").find("did you mean plan?") != std::string::npos);
  CHECK(set_option(line, *find_option("emit"), "svg").empty());
  for (const char* key : {"emit", "bind", "max-memory"})  // a terminal would obey
    CHECK_MESSAGE(set_option(line, *find_option(key), "\x1b[31m").find("got \"\\x1b[31m\"") != std::string::npos, key);
  CHECK(line.emit == std::set{Emit::Graph, Emit::Arena});
  CHECK(set_option(line, *find_option("precision"), "custom:a/b.json").empty());
}

TEST_CASE("configuration files that do not fit are refused with a place or a name") {
  constexpr std::pair<const char*, const char*> kBad[] = {
      {R"({"format": "rlxc-config", "options": {"precison": "f16"}})", "did you mean precision?"},
      {R"({"format": "rlxc-config", "options": {"align": 48}})", "takes a power of two"},
      {R"({"format": "rlxc-config", "options": {"align": "64"}})", "line 1"},
      {R"({"format": "rlxc-config", "options": {"fast-math": 1}})", "line 1"},
      {R"({"format": "rlxc-config", "options": {"range": {"a": [1]}}})", "line 1"},
      {R"({"format": "rlxc-config", "options": {"range": {"a": [2, 1]}}})", "LOW <= HIGH"},
      {R"({"format": "rlxc-config", "options": )", "line 1"},
      {R"({"options": {}})", "rlxc-config"},
      {R"([1])", "line 1"},
  };
  for (const auto& [json, words] : kBad) {
    Diagnostics d;
    configured(json, d);
    CHECK_FALSE(d.ok());
    CHECK_MESSAGE(d.text().find(words) != std::string::npos, d.text());
  }
}

TEST_CASE("the manifest has values in their types, and of paths the last component") {
  CommandLine line;
  for (const auto& [key, word] :
       {std::pair{"bound", "n=4"}, {"lint", "true"}, {"precision", "custom:a/b.json"}, {"supported-ops", "/x/ops.txt"}})
    CHECK(set_option(line, *find_option(key), word).empty());
  const std::string json = manifest_options(line);
  for (const char* part : {R"("bound": {"n": 4})", R"("lint": true)", R"("precision": "custom:b.json")",
                           R"("supported-ops": "ops.txt")", R"("max-packed": null)", R"("max-arena": 0)", R"("emit": [])"})
    CHECK_MESSAGE(json.find(part) != std::string::npos, json);
  CHECK(json.find("max-nodes") == std::string::npos);
}

TEST_CASE("the documentation and the schema are those of the table") {
  check_golden("../../docs/options.md", options_markdown());
  check_golden("../../schemas/config.schema.json", configuration_schema());
}
