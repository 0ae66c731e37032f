// The cpu package: C sources that a person can read and build, with a C API and the weights beside them.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/package.h"

namespace rlxc {

struct TextFile {
  std::string name, content;
};

struct CpuPackageOptions {
  bool threads = true;
  bool guard = false;  // poison what a step may not touch; to be built with -fsanitize=address
  bool laps = false;   // double <name>_lap_ms[]: what each step took, added up over runs, in the order of all graphs' programs
  // A run ends with kLimitError where iterations of loops count for more operations; const char* <name>_limited is then the node.
  // 0: no limit
  uint64_t max_operations = 0;
  // Up to so many bytes of weights are copied to <name>.weights. Beyond, those that lie in a file of the model are read from
  // there (a file name relative to the folder of the model, offset and size), and only what was made in memory is copied.
  uint64_t max_packed_bytes = 16 << 20;
};

constexpr int kLimitError = 100;  // of <name>_run, beside the codes of <name>.h

// All text files: <name>.h, <name>.c, kernels_*.c, parallel.c, main.c, Makefile, README.md. The package's name must be a C
// identifier.
std::vector<TextFile> write_cpu_package(const codegen::Package&, const CpuPackageOptions&);

std::string weights_file(const codegen::Package&);  // <name>.weights
uint64_t padded_weight(uint64_t bytes);             // what a weight takes in it
// Its bytes, streamed in order. False when `write` is.
bool write_weights(const codegen::Package&, const CpuPackageOptions&,
                   const std::function<bool(std::span<const std::byte>)>& write);
bool write_weights_file(const codegen::Package&, const CpuPackageOptions&, const std::string& folder);

}  // namespace rlxc
