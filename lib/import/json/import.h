// JSON graphs to modules, at HIR or MIR stage. Two forms are read: that of schemas/graph.schema.json, which report/graph_json.h
// writes (lir.json is read the same way, without its plan), and the externally tagged form of the reference tools.
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
  bool allow_missing_weights = false;  // parameters whose file is not there have no data, with a warning
  bool places_only = false;            // constants whose file is not there know its name and their place in it, and no bytes
};

// Null when there is an error among the diagnostics, which carry line and column; all unknown operations and bad references are
// listed at once. Types are read as written, and inferred where they are left out; run `verify` to check them. The file stays
// mapped only while it is read. O(bytes).
std::unique_ptr<Module> import_json(const std::string& path, const ImportOptions&, Diagnostics&);
// Of a text in memory; files of weights are looked for in `folder`.
std::unique_ptr<Module> parse_json(std::string_view text, const std::string& folder, const ImportOptions&, Diagnostics&);

}  // namespace rlxc::import_json
