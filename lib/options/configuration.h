// Where options come from beside flags: environment variables and JSON files. Flags win over files, files over the environment.
#pragma once
#include <string>

#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// `get` answers the value of a variable or null (getenv, or a fake in tests). A malformed value is a warning, and is ignored.
void apply_environment(CommandLine&, const char* (*get)(const char*), Diagnostics&);
bool env_flag(std::string_view value);  // empty, 0, 00, false, off, no (any case, trimmed) are false

// Sets the options that the file names (`rlxc schema config`). Errors: Unreadable, BadJson, BadFlag for unknown options and bad
// values.
bool read_configuration(const std::string& path, CommandLine&, Diagnostics&);
// The options that change what a compile writes, as the JSON object of manifest.json.
std::string manifest_options(const CommandLine&);
// All options that differ from their defaults, as such a file.
std::string configuration_json(const CommandLine&);

}  // namespace rlxc
