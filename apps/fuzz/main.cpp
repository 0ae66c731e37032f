// Any bytes, given as a model, a compiled module or a table of buffers, give a result or diagnostics: never a crash, a hang or a
// read outside of them. For libFuzzer; scripts/fuzz builds and runs it.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>

#include "driver/commands.h"
#include "driver/load.h"
#include "eval/equivalence.h"
#include "eval/random_weights.h"
#include "fuzz/mutate_onnx.h"
#include "ir/verify.h"
#include "runtime/process.h"

using namespace rlxc;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

// Removed when the process ends.
const std::string& folder() {
  static const target::WorkFolder made;
  if (made.path().empty()) std::abort();
  return made.path();
}

// What is read without an error is a valid graph, which can be evaluated.
void evaluate(const CompileOptions& options) {
  Diagnostics d;
  const auto model = load_model(options, d);
  if (!model) return;
  const Module& m = *model->module;
  if (!verify(m, d)) std::abort();
  eval::EquivalenceOptions o;
  o.evaluation.max_steps = 1 << 20;
  o.evaluation.max_bytes = 1 << 26;
  if (!eval::random_inputs_fit(m, o.evaluation, d)) return;
  const auto params = eval::random_weights(m, o.evaluation.bindings, o.seed, o.range);
  o.evaluation.params = &params;
  eval::evaluate(m, eval::random_inputs(m, o), d, o.evaluation);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  const auto changed = seed % 4 == 0 ? std::nullopt : mutate_onnx({reinterpret_cast<const char*>(data), size}, seed);
  if (!changed || changed->size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  memcpy(data, changed->data(), changed->size());
  return changed->size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr const char* kTargets[] = {"cpu", "cuda", "metal", "wgpu", "mlx", "tpu"};
  const unsigned choice = std::accumulate(data, data + size, 0u);
  CompileOptions o;
  o.input = folder() + "/input";
  o.output = folder() + "/out";
  o.targets = {kTargets[choice % std::size(kTargets)]};
  o.precision_name = choice % 3 == 0 ? "automixed" : "f32";
  if (choice % 2 == 0) o.fuse_attn_threshold = 1 << 20;
  o.max_nodes = 10'000;
  o.quiet = o.verify = o.allow_missing_weights = true;
  std::ofstream(o.input, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  if (size > 2 && data[0] == 'i' && data[1] == 'd') return plan_command(o.input, 0, 1, {}), 0;
  evaluate(o);
  compile_command(o, {});
  if (size > 0 && data[0] == '{') specialize_command(o, {});
  return 0;
}
