// Validates artefacts against schemas/ with scripts/validate-json.
#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "support/source_dir.h"
#include "support/temp_dir.h"

namespace rlxc::test {

// Fails the test unless `json` is valid under schemas/<kind>.schema.json. Passes with a message if Python's jsonschema is
// missing.
inline void check_schema(const std::string& kind, std::string_view json) {
  static const bool available = std::system("python3 -c 'import jsonschema' 2>/dev/null") == 0;
  if (!available) {
    MESSAGE("python3-jsonschema is not installed: " << kind << " is not checked against its schema");
    return;
  }
  const TempDir folder;
  const std::string file = folder / "content.json", root = source_dir();
  std::ofstream(file, std::ios::binary) << json;
  const std::string command =
      "'" + root + "/scripts/validate-json' '" + root + "/schemas/" + kind + ".schema.json' '" + file + "'";
  CHECK_MESSAGE(std::system(command.c_str()) == 0, kind << " does not follow its schema");
}

}  // namespace rlxc::test
