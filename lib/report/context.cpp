#include "report/context.h"

namespace rlxc::report {

namespace {

void write_identity(JsonWriter& out, std::string_view kind, std::string_view version, std::string_view tool_version) {
  out.key("$schema").string(std::string(kind) + ".schema.json");
  out.key("format").string("rlxc-" + std::string(kind));
  out.key("format_version").string(version);
  out.key("generator").string("rlxc " + std::string(tool_version));
}

}  // namespace

void write_plain_header(JsonWriter& out, std::string_view kind, std::string_view tool_version) {
  write_identity(out, kind, kFormatVersion, tool_version);
}

void write_header(JsonWriter& out, std::string_view kind, const ReportContext& context, std::string_view version) {
  write_identity(out, kind, version, context.version);
  out.key("input").begin_object(JsonLayout::Line).key("name").string(context.input_name);
  if (!context.input_sha256.empty()) out.key(context.input_sampled ? "sampled_sha256" : "sha256").string(context.input_sha256);
  out.end_object();
  if (!context.target.empty()) out.key("target").string(context.target);
}

}  // namespace rlxc::report
