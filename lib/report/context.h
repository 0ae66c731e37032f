// Provenance recorded in every artefact. It must not differ between two compiles of the same file with the same options: no
// times, no absolute paths.
#pragma once
#include <string>
#include <string_view>

#include "support/json_form.h"
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
inline constexpr std::string_view kPlanVersion = newest_version("plan");
inline constexpr std::string_view kFusionVersion = newest_version("fusion");
inline constexpr std::string_view kLirVersion = newest_version("lir");
inline constexpr std::string_view kGraphVersion = newest_version("graph");

// Writes the first members of an artefact: $schema ("plan.schema.json"), format ("rlxc-plan"), format_version, generator, input,
// target.
void write_header(JsonWriter&, std::string_view kind, const ReportContext&, std::string_view version = kFormatVersion);
// The same for output that is about no file: $schema, format, format_version and generator.
void write_plain_header(JsonWriter&, std::string_view kind, std::string_view tool_version);

}  // namespace rlxc::report
