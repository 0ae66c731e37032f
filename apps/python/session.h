// The part of the Python module that needs no Python: loads, compiles and runs models. Functions throw Failure and nothing else.
// Several threads may call them at a time, without the interpreter's lock.
#pragma once
#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/artefacts.h"
#include "driver/compile.h"
#include "driver/loaded_model.h"
#include "eval/compare.h"
#include "options/options.h"
#include "runtime/run_kernels.h"
#include "support/temporary_folder.h"

namespace rlxc::python {

struct Failure {
  Diagnostics diagnostics;
};

// Options as words, in their order: the key "fast-math" or "fast_math", and the words of its value.
using OptionWords = std::vector<std::pair<std::string, std::vector<std::string>>>;

// The file of a model, or bytes in a file of our own that goes with this object.
class Source {
 public:
  explicit Source(std::string path) : path_(std::move(path)) {}
  static std::shared_ptr<Source> of_bytes(std::span<const std::byte>);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const std::string& path() const { return path_; }
  bool in_memory() const { return folder_ != nullptr; }

 private:
  std::string path_;
  std::unique_ptr<TemporaryFolder> folder_;
  pid_t owner_ = 0;  // a child of this process has a copy of this object, and leaves the folder alone
};

// An input or output.
struct Port {
  std::string name, type;  // "f32[batch,3]"
  Type kind;
  std::vector<std::string> dims;
};

struct CompiledModule;

class SourceModel {
 public:
  SourceModel(std::shared_ptr<Source>, std::string shown, OptionWords);

  std::string name() const, format() const;
  const std::string& hash() const { return loaded_.content_hash; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const std::vector<std::string>& symbols() const { return symbols_; }
  const Diagnostics& diagnostics() const { return diagnostics_; }

  // The same file with these options behind its own.
  std::unique_ptr<SourceModel> with(const OptionWords&) const;
  std::unique_ptr<CompiledModule> compile(const std::string& target, const OptionWords&) const;
  // The reference evaluator on the model as it was read.
  std::vector<eval::HostValue> evaluate(const std::vector<eval::HostValue>&) const;
  std::vector<eval::HostValue> random_inputs(uint64_t seed, const DimBindings&) const;
  // As ONNX, JSON or IR text, by the ending. Returns the warnings.
  Diagnostics save(const std::string& path, const OptionWords&) const;
  // A record for --calibration, as JSON. `data`: folders and archives.
  std::pair<std::string, Diagnostics> calibrate(const std::vector<std::string>& data, const OptionWords&) const;

 private:
  CommandLine line_with(const OptionWords&, uint32_t commands, Diagnostics&) const;

  std::shared_ptr<Source> source_;
  std::string shown_;  // in messages
  OptionWords words_;
  CommandLine line_;
  LoadedModel loaded_;
  std::vector<Port> inputs_, outputs_;
  std::vector<std::string> symbols_;
  Diagnostics diagnostics_;
  mutable std::mutex mutex_;  // of the loaded module
};

// How an output compares with the expected one.
struct Comparison {
  std::string output, message;  // empty: they agree
  bool pass = false;
  double max_abs = 0, max_rel = 0, cosine = 1, norm_error = 0;
};

struct BuildOptions {
  std::string compiler = "cc";
  std::vector<std::string> flags = {"-O3", "-march=native"};
  bool threads = false;
  bool operator==(const BuildOptions&) const = default;
};

struct CompiledModule {
  std::shared_ptr<Source> source;
  std::string shown;
  CommandLine line;
  InputIdentity identity;
  HostForms forms;
  eval::Tolerance tolerance;
  Compiled compiled;
  std::vector<Port> inputs, outputs;
  std::vector<std::string> symbols;
  Diagnostics diagnostics;

  // Builds what runs it by the engine, again if the build options are others than before.
  void build(Engine, const BuildOptions&);
  std::vector<eval::HostValue> run(std::vector<eval::HostValue>, Engine);
  // Compares with the reference evaluator on the model as it was read, as `rlxc run` does. Nullopt: tolerances of the precision.
  std::vector<Comparison> check(const SourceModel&, const std::vector<eval::HostValue>&, Engine, std::optional<double> rtol,
                                std::optional<double> atol);
  // Initial contents of the states of a program that trains, by the position of the input.
  std::vector<std::pair<size_t, eval::HostValue>> first_states() const;
  std::vector<std::pair<std::string, std::string>> reports();
  std::string page();
  // `emit`: the artefacts; empty: all. Returns the warnings.
  Diagnostics save(const std::string& folder, const std::vector<std::string>& emit);

 private:
  struct Built {
    BuildOptions options;
    std::unique_ptr<KernelRunner> runner;
  };
  KernelRunner* runner(Engine, const BuildOptions*, Diagnostics&);

  std::map<Engine, Built> built_;  // they refer to the compiled module
  std::mutex mutex_;
};

// A file among those of a compile: its name, what stands before the names of its facts, and its contents.
struct ReportFile {
  std::string name, prefix, text;
};
struct Difference {
  std::string json, text;
  bool finding = false;
};
Difference diff(const std::vector<ReportFile>& before, const std::vector<ReportFile>& after,
                const std::vector<std::string>& fail_on);

}  // namespace rlxc::python
