// Text files of packages, and the options of the cpu package.
#pragma once
#include <cstdint>
#include <string>

namespace rlxc {

struct TextFile {
  std::string name, content;
};

struct TrainingProgram;

struct CpuPackageOptions {
  bool threads = true;
  bool guard = false;          // poison memory that a command must not access; build with -fsanitize=address
  bool embed_weights = false;  // all weights are in <name>.weights, and the library links them
  bool laps = false;  // double <name>_lap_ms[]: time of each command, summed over runs, in the order of all graphs' programs
  // A run fails with kLimitError if loop iterations exceed so many operations; const char* <name>_limited then names the node. 0:
  // no limit.
  uint64_t max_operations = 0;
  // If the weights exceed this size, weights in a file of the model are read from there (file name relative to the model's
  // folder, offset, size), and only weights made in memory are copied to <name>.weights.
  uint64_t max_packed_bytes = 16 << 20;
  std::string tpu_precision = "highest";      // tpu: of products of f32 on matrix units: default, high or highest
  bool prepare_weights = true;                // tpu: a module of its own converts and transposes weights, once
  const TrainingProgram* training = nullptr;  // the program trains: see cpu_training.h
};

constexpr int kLimitError = 100;  // of <name>_run, in addition to the codes of <name>.h

}  // namespace rlxc
