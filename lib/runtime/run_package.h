// Builds a cpu package with the C compiler of this machine, loads it and runs it: `rlxc run --engine=kernels`, and tests.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/package.h"
#include "eval/eval.h"

namespace rlxc {

struct RunOptions {
  std::string compiler = "cc";
  std::vector<std::string> flags = {"-O1", "-march=native"};
  bool threads = false;
  bool laps = false;            // time each command
  uint64_t max_operations = 0;  // of the loops of a run; Code::TooLarge if exceeded; 0: no limit
  std::string folder = {};      // folder for the sources; empty: a temporary folder, removed afterwards
};

class LoadedPackage {
 public:
  // Fails with Code::ToolFailed and the compiler's message.
  static std::unique_ptr<LoadedPackage> build(const codegen::Package&, const RunOptions&, Diagnostics&);
  ~LoadedPackage();
  LoadedPackage(const LoadedPackage&) = delete;
  LoadedPackage& operator=(const LoadedPackage&) = delete;

  // Milliseconds of each command, summed over all runs, in the order of all graphs' programs. Needs RunOptions::laps.
  std::span<const double> lap_ms() const { return laps_; }

  // Milliseconds that preparing the weights took; bytes of prepared weights; bytes of activations and scratch memory, 0 before
  // the first run.
  double load_ms() const { return load_ms_; }
  size_t packed_bytes() const;
  size_t arena_bytes() const;

  // `inputs` are in the order of the graph; their shapes bind the symbols. Errors: Code::BadShape or BadType if they do not fit.
  std::optional<std::vector<eval::HostValue>> run(std::span<const eval::HostValue> inputs, Diagnostics&);

 private:
  explicit LoadedPackage(const codegen::Package&);
  struct Api;

  const codegen::Package& package_;
  void* library_ = nullptr;
  void* context_ = nullptr;
  std::unique_ptr<Api> api_;
  uint64_t max_operations_ = 0;
  const char* const* limited_ = nullptr;  // the node of the loop that exceeded the limit
  std::span<const double> laps_;
  double load_ms_ = 0;
};

std::optional<std::vector<eval::HostValue>> run_package(const codegen::Package&, std::span<const eval::HostValue> inputs,
                                                        Diagnostics&, const RunOptions& = {});

}  // namespace rlxc
