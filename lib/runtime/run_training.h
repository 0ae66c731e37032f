// Builds a cpu package that trains with the C compiler of this machine and loads it: `rlxc train`, and tests.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/training_program.h"
#include "codegen/package.h"
#include "runtime/process.h"
#include "support/diagnostics.h"

namespace rlxc {

class LoadedTrainer {
 public:
  // Fails with Code::ToolFailed and the compiler's message, or MissingWeights.
  static std::unique_ptr<LoadedTrainer> build(const codegen::Package& step, const codegen::Package& forward,
                                              const TrainingProgram&, Diagnostics&);
  ~LoadedTrainer();
  LoadedTrainer(const LoadedTrainer&) = delete;
  LoadedTrainer& operator=(const LoadedTrainer&) = delete;

  bool set_threads(int64_t threads, Diagnostics&);
  // Symbolic sizes of steps and of evaluations, in the order of the packages' symbols.
  bool set_sizes(std::span<const int64_t> step, std::span<const int64_t> forward, Diagnostics&);
  bool step(std::span<const void* const> inputs, double* loss, Diagnostics&);
  // `outputs`: those of the forward package behind the loss.
  bool loss(std::span<const void* const> inputs, std::span<void* const> outputs, double* loss, Diagnostics&);
  bool save(const std::string& path, Diagnostics&);
  bool load(const std::string& path, Diagnostics&);
  std::span<const std::byte> state(size_t i) const;

 private:
  explicit LoadedTrainer(std::string name);
  struct Api;
  bool good(int error, const std::string& what, Diagnostics&) const;

  std::string name_;
  target::WorkFolder folder_;
  void* library_ = nullptr;
  void* trainer_ = nullptr;
  std::unique_ptr<Api> api_;
};

}  // namespace rlxc
