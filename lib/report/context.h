// Provenance recorded in every artefact. It must not differ between two compiles of the same file with the same options: no
// times, no absolute paths.
#pragma once
#include <string>
#include <string_view>

#include "support/json_writer.h"

namespace rlxc::report {

struct ReportContext {
  std::string input_name;      // base name
  std::string input_sha256;    // 64 hex digits; empty if not hashed
  bool input_sampled = false;  // hash of the size (8 bytes, little-endian) and the first and last MiB of a large file
  std::string target;
  std::string version;  // of the tool
};

// Format version of artefacts without one of their own. A minor version adds members, a major one changes or removes some.
inline constexpr std::string_view kFormatVersion = "1.0";
inline constexpr std::string_view kPlanVersion = "3.0";    // 3.0: types are objects; 2.1: at_sizes
inline constexpr std::string_view kFusionVersion = "3.0";  // 3.0: formed and declined; 2.0: intermediate_values
inline constexpr std::string_view kLirVersion = "2.0";     // 2.0: results and types are objects; 1.1: layouts of values
inline constexpr std::string_view kGraphVersion = "2.1";   // 2.1: devices; 2.0: results and types are objects; 1.x is read

// Writes the first members of an artefact: $schema ("plan.schema.json"), format ("rlxc-plan"), format_version, generator, input,
// target.
void write_header(JsonWriter&, std::string_view kind, const ReportContext&, std::string_view version = kFormatVersion);
// The same for output that is about no file: $schema, format, format_version and generator.
void write_plain_header(JsonWriter&, std::string_view kind, std::string_view tool_version);

}  // namespace rlxc::report
