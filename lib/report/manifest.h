// manifest.json: what a compile wrote and with which options, so that two compiles can be told equal without reading the rest.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "report/context.h"

namespace rlxc::report {

struct ManifestFile {
  std::string path;    // relative to the output folder, with '/'
  std::string sha256;  // 64 hex digits
  uint64_t bytes = 0;
};

struct Manifest {
  std::string fingerprint;          // of the LIR, 32 hex digits
  std::vector<ManifestFile> files;  // written in order of path
  std::string options;              // as resolved: a JSON object, without folders of this machine
};

void write_manifest(const Manifest&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
