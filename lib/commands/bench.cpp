// rlxc bench: the latency of a model on this machine's processor, alone or in turn with another candidate.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "backend/backend.h"
#include "backend/registry.h"
#include "commands/commands.h"
#include "commands/missing_weights.h"
#include "commands/profile.h"
#include "commands/progress_line.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "report/context.h"
#include "report/junit.h"
#include "report/table.h"
#include "runtime/process.h"
#include "runtime/run_package.h"
#include "support/json_reader.h"
#include "support/json_writer.h"
#include "support/number.h"
#include "support/output_file.h"
#include "support/progress.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

struct Candidate {
  std::string name;
  std::vector<double> ms;                  // of each run; sorted before it is printed
  const LoadedPackage* package = nullptr;  // null for other programs
  double at(double share) const { return ms[static_cast<size_t>(std::lround(share * static_cast<double>(ms.size() - 1)))]; }
  double mean() const {
    double sum = 0;
    for (double v : ms) sum += v;
    return sum / static_cast<double>(ms.size());
  }
};

// A model compiled for this processor, with inputs.
struct Measured {
  std::optional<Compiled> compiled;
  std::optional<codegen::Package> package;
  std::unique_ptr<LoadedPackage> loaded;
  std::vector<eval::HostValue> inputs;
};

bool prepare_measured(const CompileOptions& o, const ProfileRequest& request, Measured* out, Diagnostics& d) {
  auto model = load_model(o, d);
  if (!model) return false;
  fill_missing_weights(*model->module, {}, 1, d);
  auto inputs = host_inputs(*model, o, request.data, d);
  if (!inputs) return false;
  out->inputs = std::move(*inputs);
  out->compiled = compile(std::move(*model), "cpu", o, {}, d);
  if (!out->compiled) return false;
  out->package = cpu_backend().program(out->compiled->lir, d, out->compiled->lowerings.get());
  if (!out->package) return false;
  note_stage("build");
  out->loaded = LoadedPackage::build(
      *out->package, {.flags = {"-O3", "-march=native"}, .threads = request.threads > 1, .max_operations = o.max_operations}, d);
  return out->loaded != nullptr;
}

bool measure(const Measured& m, int64_t times, std::vector<double>* ms, Diagnostics& d) {
  for (int64_t i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!m.loaded->run(m.inputs, d)) return false;
    if (ms) ms->push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return true;
}

// Runs the model with ONNX Runtime on random inputs of the same shapes and prints the milliseconds of each run as JSON.
constexpr char kOnnxRuntime[] = R"(
import json, sys, time
try:
    import numpy, onnxruntime
except ImportError as e:
    sys.exit(f"python3: {e}")
path, shapes, threads, warm_up, runs = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:6])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
kinds = {"float": "float32", "double": "float64", "float16": "float16"}
random = numpy.random.default_rng(1)
feed = {}
for i, shape in zip(session.get_inputs(), shapes):
    kind = i.type[7:-1]
    kind = kinds.get(kind, kind)
    values = random.uniform(-1, 1, shape) if kind.startswith("float") else random.integers(0, 2, shape)
    feed[i.name] = numpy.asarray(values, dtype=kind)
times = []
for _ in range(warm_up + runs):
    start = time.perf_counter()
    session.run(None, feed)
    times.append((time.perf_counter() - start) * 1e3)
json.dump(times[warm_up:], open(sys.argv[6], "w"))
)";

bool measure_onnx_runtime(const CompileOptions& o, const Measured& m, const ProfileRequest& request, const BenchRequest& bench,
                          Candidate* out, Diagnostics& d) {
  std::string shapes;
  JsonWriter w(shapes);
  w.begin_array(JsonLayout::Line);
  for (const eval::HostValue& v : m.inputs) {
    w.begin_array(JsonLayout::Line);
    for (int64_t n : v.tensor.dims) w.integer(n);
    w.end_array();
  }
  w.end_array().flush();
  const target::WorkFolder folder;
  const std::string times = folder.path() + "/times.json";
  std::string log;
  if (folder.path().empty() ||
      !target::run_command({"python3", "-c", kOnnxRuntime, std::filesystem::absolute(o.input).string(), shapes,
                            std::to_string(request.threads), std::to_string(bench.warm_up), std::to_string(bench.runs), times},
                           folder.path() + "/log", &log)) {
    target::add_tool_error("ONNX Runtime", log, {}, d);
    return false;
  }
  out->name = "onnxruntime";
  const std::string text = folder.read("times.json");
  JsonReader r(text);
  r.begin_array();
  while (r.next_item()) r.number(&out->ms.emplace_back());
  if (!r.ok() || out->ms.empty()) d.error(Code::ToolFailed, "ONNX Runtime gave no times");
  return d.ok();
}

std::string digits(double v) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, v < 10 ? "%.4f" : "%.2f", v);
  return buffer;
}

void print_bench(const std::vector<Candidate>& all, const ProfileRequest& request) {
  std::string out;
  report::Table table({"ms a run", "least", "median", "p90", "p99", "most", "mean"});
  for (const Candidate& c : all)
    table.add({ForeignText(c.name).line(), digits(c.ms.front()), digits(c.at(0.5)), digits(c.at(0.9)), digits(c.at(0.99)),
               digits(c.ms.back()), digits(c.mean())});
  table.print(&out);
  out += std::to_string(all[0].ms.size()) + " runs on " + std::to_string(request.threads) +
         (request.threads == 1 ? " thread" : " threads");
  if (all.size() > 1) {
    out += "; by the medians the first takes " + digits(all[0].at(0.5) / all[1].at(0.5)) + " times as long as the second";
  }
  out += '\n';
  for (const Candidate& c : all)
    if (c.package)
      out += ForeignText(c.name).line() + ": loaded in " + digits(c.package->load_ms()) + " ms, " +
             human_bytes(c.package->packed_bytes()) + " of prepacked weights, arena of " + human_bytes(c.package->arena_bytes()) +
             "\n";
  std::cout << out;
}

void write_bench(const std::vector<Candidate>& all, const ProfileRequest& request, const BenchRequest& bench) {
  std::string text;
  JsonWriter w(text);
  w.begin_object();
  report::write_plain_header(w, "bench", version());
  w.key("threads").integer(request.threads).key("warm_up").integer(bench.warm_up).key("runs").integer(bench.runs);
  w.key("candidates").begin_array();
  for (const Candidate& c : all) {
    w.begin_object().key("name").string(c.name);
    const std::pair<std::string_view, double> facts[] = {{"least_ms", c.ms.front()}, {"median_ms", c.at(0.5)},
                                                         {"p90_ms", c.at(0.9)},      {"p99_ms", c.at(0.99)},
                                                         {"most_ms", c.ms.back()},   {"mean_ms", c.mean()}};
    for (const auto& [key, value] : facts) w.key(key).number(rounded_ms(value));
    if (c.package) {
      w.key("load_ms").number(rounded_ms(c.package->load_ms()));
      w.key("packed_bytes")
          .unsigned_integer(c.package->packed_bytes())
          .key("arena_bytes")
          .unsigned_integer(c.package->arena_bytes());
    }
    w.end_object();
  }
  w.end_array().end_object().finish();
  std::cout << text;
}

}  // namespace

ExitCode bench_command(const CompileOptions& o, const ProfileRequest& request, const BenchRequest& bench,
                       const std::string& junit, Terminal t) {
  Diagnostics d(o.input);
  ::setenv("RLXC_THREADS", std::to_string(request.threads).c_str(), 1);  // read when a package is loaded
  std::vector<Candidate> all{{o.input, {}, nullptr}};
  Measured first, second;
  if (!prepare_measured(o, request, &first, d)) return print_diagnostics(d, t);
  const bool other_program = bench.against == "onnxruntime", other_model = !bench.against.empty() && !other_program;
  if (other_model) {
    CompileOptions other = o;
    other.input = bench.against;
    Diagnostics of_other(other.input);
    if (!prepare_measured(other, request, &second, of_other)) return print_diagnostics(of_other, t);
    all.push_back({bench.against, {}, second.loaded.get()});
  }
  note_stage("run");
  // In turn, so that both meet the same state of the machine.
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t times = i == 0 ? bench.warm_up : 1, rounds = i == 0 ? 1 : bench.runs;
    for (int64_t k = 0; k < rounds; ++k)
      if (!measure(first, times, i ? &all[0].ms : nullptr, d) ||
          (other_model && !measure(second, times, i ? &all[1].ms : nullptr, d)))
        return print_diagnostics(d, t);
  }
  all[0].package = first.loaded.get();
  if (other_program && !measure_onnx_runtime(o, first, request, bench, &all.emplace_back(), d)) return print_diagnostics(d, t);
  for (Candidate& c : all) std::ranges::sort(c.ms);
  clear_progress_line();
  if (request.json) write_bench(all, request, bench);
  else print_bench(all, request);
  std::vector<report::TestCase> cases;
  for (const Candidate& c : all) cases.push_back({"median", c.name, {}, {}, c.at(0.5) / 1000});
  if (!junit.empty()) write_file(junit, report::junit_xml("rlxc bench", cases), d);
  return print_diagnostics(d, t);
}

}  // namespace rlxc
