// Writes what a compile found out: one function a file. Each file appears whole or not at all (temporary name, then rename);
// manifest.json is written last and lists the others with their sha256.
#pragma once
#include <string>

#include "driver/compile.h"

namespace rlxc {

struct InputIdentity {
  std::string name;  // base name of the input file
  std::string sha256;
  bool sampled = false;  // the hash is of the size and both ends of the file
};

// Into `folder`, which is made if need be; or to standard output if it is "-" (then exactly one artefact is asked for).
bool write_artefacts(const Compiled&, const InputIdentity&, const Options&, const std::string& folder, Diagnostics&);

// The reports for people.
std::string fusion_text(const Compiled&, const InputIdentity&);
std::string dispatch_text(const Compiled&, const InputIdentity&);

}  // namespace rlxc
