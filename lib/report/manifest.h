// manifest.json: the files and options of a compile, so that compiles can be compared without reading the other files.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "report/context.h"

namespace rlxc::report {

struct ManifestFile {
  std::string path;    // relative to the output folder, separated by '/'
  std::string sha256;  // 64 hex digits
  uint64_t bytes = 0;
};

struct Manifest {
  std::string fingerprint;          // of the LIR, 32 hex digits
  std::vector<ManifestFile> files;  // sorted by path
  std::string options;              // resolved options: a JSON object, without folders of this machine
};

void write_manifest(const Manifest&, JsonWriter&, const ReportContext&);

}  // namespace rlxc::report
