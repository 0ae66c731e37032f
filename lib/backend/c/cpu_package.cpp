#include "backend/c/cpu_package.h"

#include <algorithm>
#include <map>
#include <set>

#include "backend/c/cpu.h"
#include "backend/c/cpu_launcher.h"
#include "backend/c/cpu_training.h"
#include "backend/c/mesh_link.h"
#include "backend/c/package_readme.h"
#include "backend/c/port_tables.h"
#include "backend/c/portable.h"
#include "backend/c/render.h"
#include "backend/host_files.h"
#include "backend/package_text.h"
#include "backend/weight_files.h"
#include "support/hash.h"

namespace rlxc {

namespace {

using codegen::Package;

constexpr size_t kKernelsInFile = 24;
constexpr uint64_t kSampled = 32;  // bytes hashed at each end of a weight in a file of the model

// Values of $KEY in host files. The longest matching key wins.
using Values = std::map<std::string, std::string, std::greater<>>;

std::string host_file(std::string_view name, const Values& values) {
  std::vector<std::pair<std::string_view, std::string>> list(values.begin(), values.end());
  for (const HostFile& h : host_files())
    if (h.name == name) return target::expand(h.text, list);
  return {};
}

// FNV-1a of both ends of a weight. The host uses it to recognise the model's files without reading them.
uint64_t sample_of(std::span<const std::byte> bytes) {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](std::span<const std::byte> part) {
    for (std::byte b : part) hash = (hash ^ static_cast<uint64_t>(b)) * 1099511628211u;
  };
  const size_t end = std::min<size_t>(bytes.size(), kSampled);
  add(bytes.first(end));
  add(bytes.last(end));
  return hash;
}

std::string header(const Package& p, const WeightFiles& located, const Values& common) {
  std::string ports;
  for (size_t i = 0; i < p.inputs.size(); ++i)
    ports += "// input " + std::to_string(i) + ": " + p.inputs[i].name.quoted() + " " + port_type(p, p.inputs[i]) +
             index_range(p, i) + "\n";
  for (size_t i = 0; i < p.outputs.size(); ++i)
    ports += "// output " + std::to_string(i) + ": " + p.outputs[i].name.quoted() + " " + port_type(p, p.outputs[i]) + "\n";
  for (size_t i = 0; i < p.symbols.size(); ++i) {
    ports += "// size " + std::to_string(i) + ": " + p.symbols[i].quoted();
    if (const auto range = p.lir->ranges.find(p.symbols[i].bytes()); range != p.lir->ranges.end())
      ports += ", " + std::to_string(range->second.low->size()) + " to " + std::to_string(range->second.high->size());
    ports += "\n";
  }
  std::string states;
  for (const State& s : p.lir->states)
    states += "// Input " + std::to_string(s.input) + ", " + p.inputs[s.input].name.quoted() + ", and output " +
              std::to_string(s.output) + ", " + p.outputs[s.output].name.quoted() +
              ", are one state: give the same buffer, or NULL as the input, and it is updated there; another input is copied "
              "first.\n";
  const bool dynamic = !p.lir->extents.empty();
  Values v = common;
  v.insert({{"PORTS", ports},
            {"STATES", states},
            {"MODEL_FILES", located.files.size() > 1 ? "" : " (none here: it may be NULL)"},
            {"OUTPUT_ROOM", dynamic ? "  // room for the largest" : ""},
            {"OUTPUT_DIMS", dynamic ? " Data-dependent dims are those of the last run." : ""}});
  return host_file("package.h.in", v);
}

// One a line.
std::string prototypes(const Package& p) {
  std::string s;
  target::Helpers helpers;
  for (const kernel::Kernel& k : p.kernels) {
    std::string open = target::cpu().open(k, kernel::launch_of(k), helpers);
    s += open.substr(0, open.rfind(" {")) + ";\n";
  }
  return s;
}

std::string kernels_header(const Package& p, const std::string& declared) {
  std::string s =
      "// The kernels, in the order in which they are first used.\n#pragma once\n#include <stdbool.h>\n#include <stdint.h>\n\n";
  s += "#define rlxc_use_threads " + p.name + "_use_threads\nvoid rlxc_use_threads(int threads);\n\n";
  s += "#ifdef RLXC_PORTABLE  // pointers, see levels.c\n";
  for (const kernel::Kernel& k : p.kernels) s += "#define " + k.name + " (*" + k.name + ")\n";
  s += "#define KERNEL extern\n#else\n#define KERNEL\n#endif\n";
  for (size_t at = 0, end; at < declared.size(); at = end) {
    end = std::min(declared.find('\n', at), declared.size() - 1) + 1;
    s.append("KERNEL ").append(declared, at, end - at);
  }
  return s;
}

std::string weight_table(const Package& p, const WeightFiles& located, const CpuPackageOptions& o) {
  std::set<uint32_t> read_in_runs;
  for (const codegen::GraphProgram& g : p.graphs)
    for (const codegen::Command& c : g.run)
      for (const codegen::BufferSlice& b : c.places)
        if (b.memory == codegen::BufferSlice::Memory::Weights) read_in_runs.insert(b.index);
  const auto literal = [](uint64_t n) { return std::to_string(n) + "u"; };
  const std::vector<uint32_t> stages = weight_stages(p);
  std::string rows;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const codegen::Weight& w = p.weights[i];
    const WeightFiles::Row& row = located.weights[i];
    const bool given = !w.data.valid();  // the caller passes it
    const bool in_runs = read_in_runs.contains(static_cast<uint32_t>(i));
    rows += "    {" + w.name.c_string() + ", " + (given ? "-1" : std::to_string(row.file)) + ", " +
            std::to_string(std::max(rlxc::bits(w.dtype) / 8, 1)) + ", " + literal(given ? 0 : row.offset) + ", " +
            literal(given ? w.bytes : row.stored) + ", " + literal(w.bytes);
    rows += in_runs ? ", 1" : ", 0";
    if (located.files.size() > 1) rows += ", " + literal(row.file > 0 && !w.slice ? sample_of(weight_data(p, w).bytes) : 0);
    if (p.mesh && w.slice)
      rows += ", " + std::to_string(w.slice->group) + ", " + literal(w.slice->runs) + ", " + literal(w.slice->run) + ", " +
              literal(w.slice->whole);
    else if (p.mesh) rows += ", -1, 0, 0, 0";
    if (!stages.empty()) rows += ", " + literal(stages[i]);
    rows += "},\n";
  }
  std::string s = "enum { FILES = " + std::to_string(located.files.size()) + ", WEIGHTS = " + std::to_string(p.weights.size()) +
                  ", HEADER = " + std::to_string(kWeightsHeader) +
                  " };\n\n// The first file is the package's own, the others are the model's; -1 is none: only " + p.name +
                  "_create_from can give it.\nstatic const char* const kFiles[FILES] = {";
  for (size_t i = 0; i < located.files.size(); ++i) s += (i ? ", " : "") + located.files[i].c_string();
  s += "};\nstatic const char kHeader[] = " + ForeignText(weights_header(p, o)).c_string() + ";\n";
  if (o.embed_weights)
    s += "#define EMBEDDED 1\nextern __attribute__((visibility(\"hidden\"))) const unsigned char " + p.name +
         "_weights_begin[], " + p.name + "_weights_end[];\n\n";
  else s += "#define EMBEDDED 0\n\n";
  s += "typedef struct {\n  const char* name;\n  int file, alignment;\n  uint64_t offset, stored, bytes;  // in the file; "
       "stored < bytes: one element, which all are equal to\n  int in_runs;  // read by runs; else only to prepare others\n";
  if (located.files.size() > 1) s += "  uint64_t sample;  // hash of both ends, of weights in files of the model\n";
  if (p.mesh)
    s += "  int group;  // -1: every device has the whole weight; else `run` bytes of each of `runs` runs of `whole` bytes\n"
         "  uint64_t runs, run, whole;\n";
  if (!stages.empty()) s += "  unsigned stages;  // bit s: the devices of stage s read it\n";
  return s + "} weight_row;\n\nstatic const weight_row kWeights[WEIGHTS + 1] = {\n" + rows + "    {\"\", 0, 1, 0, 0, 0, 0" +
         (located.files.size() > 1 ? ", 0" : "") + (p.mesh ? ", -1, 0, 0, 0" : "") + (stages.empty() ? "" : ", 0") + "}};\n\n";
}

constexpr std::string_view kSampleOf = R"(// FNV-1a of both ends of a weight.
static uint64_t sample_of(const unsigned char* p, uint64_t n) {
  uint64_t hash = 14695981039346656037u;
  const uint64_t end = n < $SAMPLED ? n : $SAMPLED;
  for (uint64_t i = 0; i < end; ++i) hash = (hash ^ p[i]) * 1099511628211u;
  for (uint64_t i = n - end; i < n; ++i) hash = (hash ^ p[i]) * 1099511628211u;
  return hash;
}

)";
constexpr std::string_view kSampleCheck =
    "    if (!status && w->file > 0$WHOLE && sample_of(c->weights[i], w->stored) != w->sample) status = $U_WRONG_WEIGHTS;\n";

constexpr std::string_view kGuard = R"(#include <sanitizer/asan_interface.h>

// A step may touch the buffers of its node; the rest of the arena is poisoned.
static void rlxc_open_all(const $N_ctx* c) { __asan_unpoison_memory_region(c->arena, (size_t)(c->end - c->arena)); }
static void rlxc_close_all(const $N_ctx* c) {
  __asan_poison_memory_region(c->arena, (size_t)(c->held - c->arena));
  __asan_poison_memory_region(c->scratch, (size_t)(c->end - c->scratch));
}
static void rlxc_open(const void* at, int64_t bytes) { __asan_unpoison_memory_region(at, (size_t)bytes); }

)";

constexpr std::string_view kLaps = R"(#include <time.h>

double $N_lap_ms[$STEPS];
static void rlxc_lap(int step) {
  static double begin;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const double now = 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
  if (step >= 0) $N_lap_ms[step] += now - begin;
  begin = now;
}

)";

constexpr std::string_view kLimit = R"(const char* $N_limited = "";
static int64_t rlxc_left;  // operations on elements
static UNUSED int rlxc_spend(int64_t operations, const char* node) {
  if (rlxc_left >= operations) return rlxc_left -= operations, 0;
  $N_limited = node;
  return 1;
}

)";

constexpr std::string_view kAreIndices = R"(static int are_indices(const void* input, int64_t count, int64_t largest) {
  const int64_t* x = input;
  for (int64_t i = 0; i < count; ++i)
    if (x[i] < 0 || x[i] > largest) return 0;
  return 1;
}

)";

// Returns statements that return an error if an index of the inputs is out of range.
std::string index_checks(const Package& p, CSizes& sizes) {
  std::string s;
  for (const IndexInput& x : p.lir->index_inputs) {
    const auto dims = p.lir->module->main().dims(p.inputs[x.input].value);
    s += "  if (!are_indices(inputs[" + std::to_string(x.input) + "], " + sizes(p.lir->module->dims.product(dims)) + ", " +
         sizes(x.largest) + ")) return " + upper(p.name) + "_BAD_INDEX;\n";
  }
  return s.empty() ? s : "  const int64_t* n = c->n;\n  (void)n;\n" + s;
}

std::string extents_member(const Package& p, size_t open) {
  if (codegen::extent_cells(p) == 0) return {};
  std::string names;
  for (const DataDependentDim& e : p.lir->extents) names += (names.empty() ? "" : ", ") + e.symbol.quoted();
  if (p.lir->check_indices) names += std::string(names.empty() ? "" : ", ") + "and the number of indices out of range";
  const std::string member =
      "  int64_t x[" + std::to_string(codegen::extent_cells(p)) + "];  // extents of the last run: " + names + "\n";
  return open == 0 ? member : member + "  int64_t open[" + std::to_string(open) + "];  // sizes that depend on them\n";
}

// Names what packed weights depend on: the weights, all kernels, and how they are launched.
std::string packed_header(const std::string& weights, std::span<const TextFile> kernels, const std::string& functions) {
  Hash128 hash;
  hash.update_text(weights);
  for (const TextFile& f : kernels) hash.update_text(f.content);
  hash.update_text(functions);
  return "rlxc packed weights 1 " + hash.hex();
}

// Hashes the generated sources. The launcher contains the header of the weights file, a hash of the weights.
std::string model_id(std::span<const TextFile> sources) {
  Hash128 hash;
  for (const TextFile& f : sources) hash.update_text(f.content);
  return hash.hex().substr(0, 16);
}

std::string launcher(const Package& p, const WeightFiles& located, const CpuPackageOptions& o, const Values& common,
                     std::span<const TextFile> kernels) {
  CSizes sizes(p.lir->module->dims, p.symbols, p.lir->extents);
  const std::string functions = launcher_functions(p, o, &sizes), table = weight_table(p, located, o);
  const PortAlignments alignments = port_alignments(p);
  std::vector<bool> is_state(p.inputs.size());
  std::string states, state_flags, names;
  if (o.max_operations) states = "  rlxc_left = " + std::to_string(std::min<uint64_t>(o.max_operations, INT64_MAX)) + ";\n";
  for (const State& s : p.lir->states) {
    const std::string in = "inputs[" + std::to_string(s.input) + "]", out = "outputs[" + std::to_string(s.output) + "]";
    states += "  if (" + in + " && " + in + " != " + out + ") memcpy(" + out + ", " + in + ", " + p.name + "_input_bytes(c, " +
              std::to_string(s.input) + "));\n";
    is_state[s.input] = true;
  }
  for (bool state : is_state) state_flags += state ? "1, " : "0, ";
  for (const ForeignText& s : p.symbols) names += s.c_string() + ", ";
  const bool checked = p.lir->check_indices;
  const std::string bad_indices = "c->x[" + std::to_string(p.lir->extents.size()) + "]";
  const bool sampled = located.files.size() > 1;
  Values v = common;
  v.insert(
      {{"TABLE", table},
       {"INPUT_ROWS", tensor_rows(p, p.inputs, alignments.inputs)},
       {"OUTPUT_ROWS", tensor_rows(p, p.outputs, alignments.outputs)},
       {"IS_STATE", state_flags},
       {"SIZE_NAMES", names},
       {"EXTENTS_HERE", p.lir->extents.empty() ? "" : "  const int64_t* x = c->x;\n  (void)x;\n"},
       {"INPUT_BYTES", bytes_cases(p, p.inputs, sizes)},
       {"OUTPUT_BYTES", bytes_cases(p, p.outputs, sizes)},
       {"INPUT_DIM", dim_cases(p, p.inputs, sizes)},
       {"OUTPUT_DIM", dim_cases(p, p.outputs, sizes)},
       {"CONDITIONS", size_conditions(p, sizes, upper(p.name) + "_NO_SIZES")},
       {"GUARD", o.guard ? target::expand(kGuard, {{"N", p.name}}) : ""},
       {"LAPS", o.laps ? target::expand(kLaps, {{"N", p.name}, {"STEPS", std::to_string(p.run_steps() + 1)}}) : ""},
       {"LIMIT", o.max_operations ? target::expand(kLimit, {{"N", p.name}}) : ""},
       {"CHECK_INDICES", index_checks(p, sizes)},
       {"ARENA", sizes(p.arena_bytes)},
       {"HELD", sizes(p.held_bytes)},
       {"SCRATCH", sizes(p.scratch_bytes)},
       {"COPY_STATES", states},
       {"BEGIN_CHECKS", checked ? "  " + bad_indices + " = 0;\n" : ""},
       {"END_CHECKS", checked ? "  if (!status && " + bad_indices + " > 0) status = " + upper(p.name) + "_BAD_INDEX;\n" : ""},
       {"LOAD_SCRATCH", sizes(p.load_scratch_bytes)},
       {"PACKED_BYTES", sizes(p.packed_bytes)},
       {"PACKED_ID", ForeignText(packed_header(table, kernels, functions)).c_string()},
       {"PACKED_FILES_ARE_READ", p.mesh || o.training ? "0" : "1"},
       {"SAMPLE_OF", sampled ? target::expand(kSampleOf, {{"SAMPLED", std::to_string(kSampled)}}) : ""},
       {"SAMPLE_CHECK",
        sampled ? target::expand(kSampleCheck, {{"U", upper(p.name)}, {"WHOLE", p.mesh ? " && w->group < 0" : ""}}) : ""}});
  const std::string open = sizes.open_sizes(p.name + "_ctx");
  v.insert({{"SIZES", sizes.table()},
            {"COUNT", std::to_string(sizes.count())},
            {"FUNCTIONS", open + functions + std::string(p.lir->index_inputs.empty() ? "" : kAreIndices)},
            {"EXTENTS", extents_member(p, sizes.open_count())}});
  return host_file("package.c.in", v);
}

constexpr const char* kStateUse = R"(
    model = Model()
    states = model.start()                       # zeros
    outputs = model.advance(states, NAME=array)  # updates the states in place
)";

}  // namespace

std::vector<TextFile> write_cpu_package(const Package& p, const CpuPackageOptions& o) {
  const WeightFiles located = locate_weights(p, o);
  Values v = {{"N", p.name},
              {"U", upper(p.name)},
              {"INPUTS", std::to_string(p.inputs.size())},
              {"OUTPUTS", std::to_string(p.outputs.size())},
              {"SIZE_COUNT", std::to_string(p.symbols.size())},
              {"WEIGHTS", std::to_string(p.weights.size())},
              {"WEIGHTS_FILE", weights_file(p)},
              {"NEXT_STATES", ""},
              {"STATE_PAIRS", ""},
              {"STATE_USE", p.lir->states.empty() ? "" : kStateUse}};
  for (const State& s : p.lir->states) {
    const std::string input = std::to_string(s.input);
    v["NEXT_STATES"] += "  next[" + input + "] = NULL;\n";
    v["STATE_PAIRS"] += (v["STATE_PAIRS"].empty() ? "(" : ", (") + input + ", " + std::to_string(s.output) + ")";
  }
  for (auto& [key, value] : training_values(p.name, o.training)) v.emplace(key, std::move(value));
  for (auto& [key, value] : link_values(p)) v.emplace(std::move(key), std::move(value));
  const std::string declared = prototypes(p);
  std::vector<TextFile> files = {{p.name + ".h", ""},
                                 {p.name + ".c", ""},
                                 {"kernels.h", kernels_header(p, declared)},
                                 {"levels.h", portable_header(p)},
                                 {"levels.c", portable_source(p, declared)}};
  const std::string renamed = "#define rlxc_parallel_for " + p.name + "_parallel_for\n";
  std::vector<std::string> parts = {p.name, "parallel"};
  if (o.training) {
    parts.push_back(p.name + "_train");
    for (TextFile& f : training_files(p, *o.training)) files.push_back(std::move(f));
  }
  const size_t kernel_files = files.size();
  for (size_t first = 0; first < p.kernels.size(); first += kKernelsInFile) {
    std::vector<const kernel::Kernel*> kernels;
    for (size_t i = first; i < std::min(first + kKernelsInFile, p.kernels.size()); ++i) kernels.push_back(&p.kernels[i]);
    parts.push_back("kernels_" + std::to_string(first / kKernelsInFile));
    files.push_back({parts.back() + ".c", renamed + target::render(kernels, target::cpu())});
  }
  files[1].content = launcher(p, located, o, v, std::span(files).subspan(kernel_files));
  files.push_back({"parallel.c", renamed + "#define rlxc_use_threads " + p.name + "_use_threads\n" +
                                     std::string(target::parallel_runtime(o.threads))});
  if (o.embed_weights) {
    parts.push_back("weights");
    files.push_back({"weights.c", host_file("package_weights.c.in", v)});
  }
  v["MODEL_ID"] = model_id(files);
  files[0].content = header(p, located, v);
  std::string objects, sources;
  for (const std::string& part : parts) {
    objects += (objects.empty() ? "" : " ") + part + ".o";
    sources += (sources.empty() ? "" : " ") + part + ".c";
  }
  files.push_back({"main.c", host_file("package_main.c.in", v)});
  for (TextFile& f : link_files(p)) files.push_back(std::move(f));
  v.insert({{"OBJECTS", objects}, {"PORTABLE_OBJECTS", portable_objects(parts)}, {"PORTABLE_RULES", portable_rules(p.name)}});
  v.insert({{"SOURCES", sources}, {"(", "$("}, {"{", "${"}, {"@", "$@"}, {"^", "$^"}, {"<", "$<"}});
  v["EMBEDDED"] = o.embed_weights ? "\nweights.o: " + weights_file(p) + "\n" : "";
  files.push_back({"Makefile", host_file("package_Makefile.in", v)});
  v["EMBEDDED"] = o.embed_weights
                      ? "set_property(SOURCE weights.c PROPERTY COMPILE_DEFINITIONS\n             " + upper(p.name) +
                            "_WEIGHTS_PATH=\"${CMAKE_CURRENT_SOURCE_DIR}/" + weights_file(p) +
                            "\")\nset_property(SOURCE weights.c PROPERTY OBJECT_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/" +
                            weights_file(p) + ")\n"
                      : "";
  files.push_back({"CMakeLists.txt", host_file("package_CMakeLists.txt.in", v)});
  for (const auto& [from, to] : {std::pair{"package.hpp.in", p.name + ".hpp"}, std::pair{"package.py.in", p.name + "_model.py"}})
    files.push_back({to, host_file(from, v)});
  files.push_back({"README.md", cpu_readme(p, o)});
  return files;
}

}  // namespace rlxc
