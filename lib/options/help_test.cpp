#include "options/help.h"

#include <doctest/doctest.h>

#include <set>

#include "options/configuration.h"
#include "options/option_table.h"
#include "support/text.h"

using namespace rlxc;

TEST_CASE("help lists every command and flag once, within the width") {
  const std::string all = program_help(80);
  for (const CommandInfo& c : kCommands) {
    CHECK_MESSAGE(all.find("\n  " + std::string(c.name) + " ") != std::string::npos, c.name);
    const std::string text = command_help(c, 80);
    for (std::string_view line : split(text, '\n'))
      if (!line.starts_with("  rlxc") && !line.starts_with("Example") && line.find(' ', 31) != line.npos)
        CHECK_MESSAGE(line.size() <= 80, line);
    CHECK_FALSE(c.example.empty());
  }
}

TEST_CASE("a flag belongs to a command at most once") {
  for (const CommandInfo& c : kCommands) {
    std::set<std::string_view> seen;
    for (const Option& o : kOptions)
      if ((o.commands & c.command) && !o.flag.empty())
        for (std::string_view s : split(o.flag.substr(o.flag.starts_with('!')), ','))
          CHECK_MESSAGE(seen.insert(s).second, c.name, " ", s);
  }
}

TEST_CASE("text is wrapped at spaces, and long words stay whole") {
  CHECK(wrapped("aa bb cc", 5, 2) == "aa bb\n  cc");
  CHECK(wrapped("aaaaaaaa b", 3, 0) == "aaaaaaaa\nb");
  CHECK(wrapped("", 10, 4).empty());
}

TEST_CASE("manual pages escape what troff takes for requests") {
  const std::string page = manual_page(find_command("compile"), "1.0");
  CHECK(page.starts_with(".TH RLXC-COMPILE 1 \"\" \"rlxc 1.0\"\n"));
  CHECK(page.find("\\-\\-target") != std::string::npos);
  CHECK(page.find("\n'") == std::string::npos);
}

TEST_CASE("variables that no option has are named, with the nearest") {
  const char* names[] = {"RLX_DISABEL_CSE=1", "RLX_DISABLE_CSE=1", "RLXC_THREADS=2", "PATH=/bin", nullptr};
  Diagnostics d;
  check_variable_names(names, d);
  REQUIRE(d.items().size() == 1);
  CHECK(d.items()[0].help == "did you mean RLX_DISABLE_CSE?");
}

TEST_CASE("sizes of bytes have units") {
  const std::pair<const char*, std::optional<uint64_t>> cases[] = {{"4096", 4096},    {"1K", 1024},
                                                                   {"8MiB", 8 << 20}, {"2 GiB", uint64_t{2} << 30},
                                                                   {"1.5k", 1536},    {"18446744073709551615", UINT64_MAX},
                                                                   {"1Q", {}},        {"-1", {}},
                                                                   {"", {}},          {"1KB", 1024},
                                                                   {"1KBB", {}},      {"99999999T", {}},
                                                                   {"nan", {}}};
  for (const auto& c : cases) CHECK_MESSAGE(parse_bytes(c.first) == c.second, c.first);
}
