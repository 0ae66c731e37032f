// Sources of options other than flags: environment variables and JSON files. Flags override files, files override the
// environment.
#pragma once
#include <string>

#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

// `get` returns the value of a variable or null (getenv, or a fake in tests). Malformed values are ignored with a warning.
void apply_environment(CommandLine&, const char* (*get)(const char*), Diagnostics&);
// Warns about variables RLX_... that no option has: `names` as in `environ`, "NAME=value".
void check_variable_names(const char* const* names, Diagnostics&);
bool env_flag(std::string_view value);  // empty, 0, 00, false, off, no (any case, trimmed) are false

// Sets the options named in the file (`rlxc schema config`), or in the manifest.json of a compile, whose paths have lost their
// folders. Errors: Unreadable, BadJson, BadFlag for unknown options and bad
// values.
bool read_configuration(const std::string& path, CommandLine&, Diagnostics&);
// The options that affect the output of a compile, as the JSON object in manifest.json.
std::string manifest_options(const CommandLine&);
// All options that differ from their defaults, as a configuration file.
std::string configuration_json(const CommandLine&);

}  // namespace rlxc
