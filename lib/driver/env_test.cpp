#include <doctest/doctest.h>

#include "driver/options.h"

using namespace rlxc;

TEST_CASE("flags of the environment: several zeros are false") {
  for (const char* off : {"", " ", "0", "00", "000", "false", "OFF", " no "}) CHECK_FALSE(env_flag(off));
  for (const char* on : {"1", "true", "yes", "2", "on", "00x"}) CHECK(env_flag(on));
}

TEST_CASE("variables set options; unset ones leave them") {
  Options o;
  apply_environment(o, [](const char* name) -> const char* {
    const std::string_view n(name);
    if (n == "RLX_IR_DUMP") return "dumps/";
    if (n == "RLX_ARENA_ALIGN") return "128";
    if (n == "RLX_DISABLE_CSE") return "1";
    if (n == "RLX_DISABLE_SCCP") return "0";
    return nullptr;
  });
  CHECK(o.dump == "dumps/");
  CHECK(o.alignment == 128);
  CHECK(o.disabled_passes.contains("common_subexpression_elimination"));
  CHECK_FALSE(o.disabled_passes.contains("sccp"));
  CHECK_FALSE(o.time_passes);
}
