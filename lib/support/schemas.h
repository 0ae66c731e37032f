// JSON Schemas of the artefacts, embedded from schemas/*.schema.json.
#pragma once
#include <span>
#include <string_view>

namespace rlxc {

struct EmbeddedSchema {
  std::string_view name, text;
};

std::span<const EmbeddedSchema> embedded_schemas();  // sorted by name
std::string_view version();

}  // namespace rlxc
