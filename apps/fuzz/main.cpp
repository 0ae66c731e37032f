// Fuzz target: arbitrary bytes as a model, a compiled module, a buffer table or a file that a flag names must yield a result or
// diagnostics, never a crash, hang, out-of-bounds read or internal error. Models that can be evaluated must have equal results
// before and after the passes and with kernels. For libFuzzer; scripts/fuzz runs it.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <numeric>

#include "backend/target_traits.h"
#include "commands/commands.h"
#include "driver/compile.h"
#include "driver/config_files.h"
#include "driver/load.h"
#include "driver/pass_options.h"
#include "fuzz/differential.h"
#include "fuzz/mutate_onnx.h"
#include "fuzz/readers.h"
#include "ir/verify.h"
#include "runtime/process.h"

using namespace rlxc;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

// Removed at exit.
const std::string& folder() {
  static const target::WorkFolder made;
  if (made.path().empty()) std::abort();
  return made.path();
}

[[noreturn]] void fail(const std::string& reason) {
  std::cerr << reason << std::endl;
  std::abort();
}

void require_no_internal_error(ExitCode code) {
  if (code == ExitCode::Internal) fail("internal error");
}

// A graph that is read without an error must be valid. `whole`: it is compiled, too.
void check_model(const CompileOptions& o, bool whole) {
  Diagnostics d;
  const auto model = load_model(o, d);
  if (!model) return require_no_internal_error(d.exit());
  if (!verify(*model->module, d)) fail(d.text());
  if (!whole) return;
  require_no_internal_error(compile_command(o, {}));
  if (const std::string reason = first_difference(o); !reason.empty()) fail(reason);
}

// The passes use the record as it is, whichever model it names.
void check_calibration(const std::string& file) {
  CompileOptions o;
  o.input = RLXC_FUZZ_EXAMPLES "/mlp.json";
  Diagnostics d;
  CalibrationRecord record;
  if (!read_calibration(file, &record, d)) return;
  auto model = load_model(o, d);
  auto passes = pass_options(o, d);
  if (!model || !passes) fail(d.text());
  passes->calibration = std::move(record);
  Compiled out;
  const bool ok = optimise(*model->module, *find_target("cpu"), o, *passes, {}, &out, d);
  require_no_internal_error(d.exit());
  if (ok && !verify(*model->module, d)) fail(d.text());
}

bool holds(const uint8_t* data, size_t size, std::string_view word) {
  return std::string_view(reinterpret_cast<const char*>(data), size).find(word) != std::string_view::npos;
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
  const bool whole = choice / 64 % 4 == 0;  // other inputs are only read, which is many times faster
  CompileOptions o;
  o.input = folder() + "/input";
  o.output = folder() + "/out";
  o.targets = {kTargets[choice % std::size(kTargets)]};
  o.precision_name = choice % 3 == 0 ? "automixed" : "f32";
  if (choice % 2 == 0) o.fuse_attn_threshold = 1 << 20;
  o.max_nodes = 10'000;
  o.max_operations = 1 << 24;
  o.quiet = o.verify = o.allow_missing_weights = true;
  std::ofstream(o.input, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  // A pass at which a compile of IR text begins, as if the text were a dump.
  static constexpr const char* kPasses[] = {"", "dead_code_elimination", "fuse_attention_block", "decompose"};
  if (holds(data, size, "module \"")) o.start_from = kPasses[choice % std::size(kPasses)];
  const bool json = size > 0 && data[0] == '{';
  if (size > 2 && data[0] == 'i' && data[1] == 'd') require_no_internal_error(plan_command(o.input, 0, 1, {}));
  else if (json && holds(data, size, "rlxc-calibration")) check_calibration(o.input);
  else if (json && holds(data, size, "rlxc-lir")) require_no_internal_error(specialize_command(o, {}));
  else if (const auto bytes = std::as_bytes(std::span(data, size)); is_beside_model(bytes)) {
    if (const std::string fault = check_beside_model(bytes, o, whole); !fault.empty()) fail(fault);
  } else check_model(o, whole);
  return 0;
}
