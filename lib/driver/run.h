// `rlxc run`: executes a model on test data and compares with the expected outputs.
#pragma once
#include <ostream>

#include "driver/options.h"
#include "eval/eval.h"
#include "support/diagnostics.h"

namespace rlxc {

enum class Engine : uint8_t { Reference, Interpreter, Kernels };  // Interpreter: of the kernel language

struct RunRequest {
  std::string data;                // folder; empty: random inputs, and the reference evaluator says what to expect,
  std::vector<DimBindings> sizes;  // once for each of these sizes of symbols
  Engine engine = Engine::Kernels;
  std::string target = "cpu";  // whose pipeline and kernels; other than cpu, packages run without their device
  bool sanitize = false;       // cpu: build with AddressSanitizer and guards between the buffers of the arena
  uint64_t max_operations = eval::Options().max_steps;  // of the reference evaluator, on elements, for one of the data sets
  double rtol = 1e-3, atol = 1e-5;
  bool cosine = false;  // judge by cosine similarity >= min_cosine instead of the tolerances
  double min_cosine = 0.999;
};

// Prints one line per output: max abs error, max rel error, cosine. Exit code: Ok, Finding, or that of the first error.
ExitCode run_model(const Options&, const RunRequest&, std::ostream&, Diagnostics&);

}  // namespace rlxc
