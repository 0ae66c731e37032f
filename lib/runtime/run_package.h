// A cpu package built by the C compiler of this machine, loaded and run: `rlxc run --engine=kernels`, and tests.
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
  bool laps = false;            // time each step
  uint64_t max_operations = 0;  // of the loops of a run, Code::TooLarge beyond; 0: no limit
  std::string folder = {};      // where the sources are kept; empty: a temporary folder, removed afterwards
};

class LoadedPackage {
 public:
  // Errors: Code::ToolFailed with the compiler's message.
  static std::unique_ptr<LoadedPackage> build(const codegen::Package&, const RunOptions&, Diagnostics&);
  ~LoadedPackage();
  LoadedPackage(const LoadedPackage&) = delete;
  LoadedPackage& operator=(const LoadedPackage&) = delete;

  // Milliseconds that each step has taken in all runs so far, in the order of all graphs' programs; with RunOptions::laps.
  std::span<const double> lap_ms() const { return laps_; }

  // Inputs in the order of the graph; their shapes bind the symbols. Code::BadShape, BadType where they do not fit.
  std::optional<std::vector<eval::HostValue>> run(std::span<const eval::HostValue> inputs, Diagnostics&);

 private:
  explicit LoadedPackage(const codegen::Package&);
  struct Api;

  const codegen::Package& package_;
  void* library_ = nullptr;
  void* context_ = nullptr;
  std::unique_ptr<Api> api_;
  uint64_t max_operations_ = 0;
  const char* const* limited_ = nullptr;  // the loop that took more
  std::span<const double> laps_;
};

std::optional<std::vector<eval::HostValue>> run_package(const codegen::Package&, std::span<const eval::HostValue> inputs,
                                                        Diagnostics&, const RunOptions& = {});

}  // namespace rlxc
