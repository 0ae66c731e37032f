// Documentation and schema generated from the table of options.
#pragma once
#include <string>
#include <vector>

namespace rlxc {

// Rows: name, value, meaning.
std::vector<std::vector<std::string>> environment_rows();
// Rows: option, configuration key, environment variable, default, commands, meaning.
std::vector<std::vector<std::string>> option_rows();

std::string options_markdown();      // docs/options.md
std::string configuration_schema();  // schemas/config.schema.json

}  // namespace rlxc
