// Writes the artefacts of a compile, one function a file. The folder is replaced as a unit (support/output_folder.h);
// manifest.json lists its files with their sha256.
#pragma once
#include <string>

#include "driver/compile.h"

namespace rlxc {

struct InputIdentity {
  std::string name;  // base name of the input file
  std::string sha256;
  bool sampled = false;  // the hash is of the size and both ends of the file
};

// Into `folder`, or to standard output if it is "-" (then exactly one artefact is asked for).
bool write_artefacts(const Compiled&, const InputIdentity&, const CompileOptions&, const std::string& folder, Diagnostics&);

// The reports for people.
std::string fusion_text(const Compiled&, const InputIdentity&);
std::string dispatch_text(const Compiled&, const InputIdentity&);

}  // namespace rlxc
