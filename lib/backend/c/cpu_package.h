// The cpu package: C sources that a person can read and build, with a C API and the weights beside them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/package.h"

namespace rlxc {

struct TextFile {
  std::string name, content;
};

struct CpuPackageOptions {
  bool threads = true;
  bool guard = false;          // poison what a step may not touch; to be built with -fsanitize=address
  bool embed_weights = false;  // all weights are in <name>.weights; a cpu package links them into its library
  bool laps = false;  // double <name>_lap_ms[]: what each step took, added up over runs, in the order of all graphs' programs
  // A run ends with kLimitError where iterations of loops count for more operations; const char* <name>_limited is then the node.
  // 0: no limit
  uint64_t max_operations = 0;
  // Up to so many bytes of weights are copied to <name>.weights. Beyond, those that lie in a file of the model are read from
  // there (a file name relative to the folder of the model, offset and size), and only what was made in memory is copied.
  uint64_t max_packed_bytes = 16 << 20;
};

constexpr int kLimitError = 100;  // of <name>_run, beside the codes of <name>.h

std::string upper(std::string);  // ASCII letters: the prefix of macros

// All text files: <name>.h, <name>.hpp, <name>_model.py, <name>.c, kernels.h, kernels_*.c, levels.h, levels.c, parallel.c,
// weights.c (embedded ones), main.c, Makefile, CMakeLists.txt, README.md. The package's name must be a C identifier.
std::vector<TextFile> write_cpu_package(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
