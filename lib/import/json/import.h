// Imports JSON graphs as modules at HIR or MIR stage. Reads two formats: schemas/graph.schema.json, which report/graph_json.h
// writes (lir.json is read without its plan), and the externally tagged format of the reference tools.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::import_json {

struct ImportOptions {
  size_t max_nodes = 10'000'000;
  size_t max_depth = 64;               // of nested bodies
  bool allow_missing_weights = false;  // missing weight files: parameters without data and a warning
  bool places_only = false;            // missing weight files: constants with file name and offset but no bytes
};

// Returns null on errors. Diagnostics carry line and column, and list all unknown ops and bad references. Types are read as
// written and inferred if omitted; run `verify` to check them. The file is unmapped afterwards. O(bytes).
std::unique_ptr<Module> import_json(const std::string& path, const ImportOptions&, Diagnostics&);
// Imports a text in memory. Weight files are relative to `folder`.
std::unique_ptr<Module> parse_json(std::string_view text, const std::string& folder, const ImportOptions&, Diagnostics&);

}  // namespace rlxc::import_json
