#include "fuzz/readers.h"

#include <utility>

#include "driver/compile.h"
#include "driver/config_files.h"
#include "driver/load.h"
#include "driver/pass_options.h"
#include "fuzz/differential.h"
#include "ir/verify.h"
#include "options/configuration.h"
#include "runtime/npy.h"
#include "support/inflate.h"
#include "support/output_file.h"

namespace rlxc {
namespace {

const std::string kExamples = RLXC_FUZZ_EXAMPLES;
constexpr std::string_view kArray = "\x93NUMPY", kStream = "deflate:";
constexpr size_t kMostUnpacked = 1 << 22;

using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }
bool has(Bytes b, std::string_view word) { return text_of(b).find(word) != std::string_view::npos; }

enum class Depth : uint8_t { Read, Compiled };

std::string compiled_fault(const CompileOptions& o, bool same_results, Depth depth) {
  Diagnostics d;
  auto model = load_model(o, d);
  if (!model) return d.exit() == ExitCode::Internal ? d.text() : "";
  if (!verify(*model->module, d)) return d.text();
  if (depth == Depth::Read) {
    pass_options(o, d);
    return d.exit() == ExitCode::Internal ? d.text() : "";
  }
  compile(std::move(*model), o.targets[0], o, {}, d);
  if (d.exit() == ExitCode::Internal) return d.text();
  return same_results ? first_difference(o) : "";
}

std::string array_fault(Bytes b) {
  Diagnostics d;
  const auto array = parse_npy(b, "array", d);
  if (!array) return "";
  const std::string written = npy_bytes(*array);
  const auto again = parse_npy(std::as_bytes(std::span(written)), "written array", d);
  if (!again) return d.text();
  return again->dims == array->dims && again->elements() == array->elements() ? "" : "a written array differs";
}

std::string packed_fault(Bytes b, const CompileOptions& o, Depth depth) {
  gunzip(b, kMostUnpacked);
  if (is_zip(b)) {
    const auto entries = zip_entries(b);
    for (size_t i = 0; entries && i < entries->size(); ++i) unzip((*entries)[i], kMostUnpacked);
    Diagnostics d;
    read_npz(o.input, d);
  }
  return compiled_fault(o, false, depth);
}

std::string operations_fault(CompileOptions o, Depth depth) {
  o.op_file = o.input;
  o.input = kExamples + "/custom/soft_gate.onnx";
  std::string fault = compiled_fault(o, true, depth);
  for (const std::vector<std::string>& steps :
       {std::vector<std::string>{"grad y", "wrt inputs"}, {"jvp x"}, {"vmap x", "size 2"}})
    if (fault.empty() && depth == Depth::Compiled) {
      o.transforms = steps;
      fault = compiled_fault(o, false, depth);
    }
  return fault;
}

// Compiles an example with the meshes, shardings and passes of a configuration. Paths in it are ignored.
std::string configuration_fault(CompileOptions o, Depth depth) {
  CommandLine line;
  Diagnostics d;
  if (!read_configuration(o.input, line, d)) return "";
  const std::string saved = configuration_json(line);
  CommandLine again;
  if (!write_file(o.input, saved, d) || !read_configuration(o.input, again, d)) return d.text();
  if (configuration_json(again) != saved) return "a saved configuration differs";
  o.input = kExamples + "/mlp.json";
  o.mesh = line.mesh;
  o.shards = line.shards;
  o.parallel = line.parallel;
  o.start_from = line.start_from;
  o.stop_after = line.stop_after;
  o.passes = line.passes;
  o.disabled_passes = line.disabled_passes;
  o.bind = line.bind;
  o.ranges = line.ranges;
  o.assume = line.assume;
  o.transforms = line.transforms;
  o.alignment = line.alignment;
  return compiled_fault(o, false, depth);
}

}  // namespace

bool is_beside_model(Bytes b) {
  const bool json = text_of(b).starts_with('{');
  bool named = false;
  for (const char* format : {"rlxc-ops", "rlxc-rules", "rlxc-shard-rules", "rlxc-config", "rlxc-precision-map", "rlxc-tuning"})
    named |= json && has(b, format);
  return named || text_of(b).starts_with(kArray) || text_of(b).starts_with(kStream) || is_zip(b) || is_gzip(b);
}

std::string check_beside_model(Bytes b, CompileOptions o, bool whole) {
  const Depth depth = whole ? Depth::Compiled : Depth::Read;
  if (text_of(b).starts_with(kArray)) return array_fault(b);
  if (text_of(b).starts_with(kStream)) {
    const auto out = inflate(b.subspan(kStream.size()), kMostUnpacked);
    return out && out->size() > kMostUnpacked ? "more bytes than the limit" : "";
  }
  if (is_zip(b) || is_gzip(b)) return packed_fault(b, o, depth);
  if (has(b, "rlxc-ops")) return operations_fault(o, depth);
  if (has(b, "rlxc-config")) return configuration_fault(o, depth);
  const std::string file = std::exchange(o.input, kExamples + "/mlp.json");
  if (has(b, "rlxc-rules")) o.rule_file = file;  // which may change results
  else if (has(b, "rlxc-precision-map")) o.precision_name = "custom:" + file;
  else if (has(b, "rlxc-tuning")) o.tuning_file = file;
  else o.shard_rules = file;
  if (!o.shard_rules.empty()) {
    o.mesh = "data=2,model=2";
    o.bind = {{"batch", 4}};
  }
  return compiled_fault(o, false, depth);
}

}  // namespace rlxc
