// Writes the artefacts of a compile. The output folder is replaced atomically (support/output_folder.h); manifest.json lists its
// files with their sha256.
#pragma once
#include <string>

#include "driver/compile.h"

namespace rlxc {

struct InputIdentity {
  std::string name;  // base name of the input file
  std::string sha256;
  bool sampled = false;  // hash of the size and both ends of the file
};

// Writes to `folder`, or to standard output if it is "-", which requires exactly one artefact.
bool write_artefacts(const Compiled&, const InputIdentity&, const CompileOptions&, const std::string& folder, Diagnostics&);

// The text reports.
std::string fusion_text(const Compiled&, const InputIdentity&);
std::string dispatch_text(const Compiled&, const InputIdentity&);

}  // namespace rlxc
