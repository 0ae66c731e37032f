#include "backend/c/cpu_package.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "backend/c/cpu.h"
#include "backend/c/cpu_launcher.h"
#include "backend/c/render.h"
#include "support/checked.h"

namespace rlxc {
namespace {

using codegen::Package;

constexpr size_t kKernelsInFile = 24;

const TensorData& data_of(const Package& p, const codegen::Weight& w) {
  static const TensorData none;
  return w.data.valid() ? p.lir->module->data[w.data] : none;
}

// Which weights stay in the files of the model.
class Storage {
 public:
  Storage(const Package& p, const CpuPackageOptions& o) : p_(p) {
    uint64_t total = 0;
    for (const codegen::Weight& w : p.weights) total += stored_bytes(w);
    refer_ = total > o.max_packed_bytes;
    for (const codegen::Weight& w : p.weights) has_model_files_ |= in_model_file(w);
  }
  bool in_model_file(const codegen::Weight& w) const {
    const TensorData& d = data_of(p_, w);
    return refer_ && !d.file.empty() && !d.splat;
  }
  bool has_model_files() const { return has_model_files_; }
  // Equal elements are stored once, weights without data not at all.
  uint64_t stored_bytes(const codegen::Weight& w) const { return data_of(p_, w).bytes.size(); }

 private:
  const Package& p_;
  bool refer_ = false, has_model_files_ = false;
};

std::string shape_text(const Package& p, const codegen::Port& port) {
  const Module& m = *p.lir->module;
  return text(m.graph(port.graph).type(port.value), m.dims);
}

std::string upper(std::string s) {
  for (char& c : s)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return s;
}

std::string header(const Package& p, bool files) {
  const std::string& n = p.name;
  std::string s = "// " + n + ": a model as C, made by rlxc.\n//\n";
  for (size_t i = 0; i < p.inputs.size(); ++i)
    s += "// input " + std::to_string(i) + ": " + p.inputs[i].name.quoted() + " " + shape_text(p, p.inputs[i]) + "\n";
  for (size_t i = 0; i < p.outputs.size(); ++i)
    s += "// output " + std::to_string(i) + ": " + p.outputs[i].name.quoted() + " " + shape_text(p, p.outputs[i]) + "\n";
  for (size_t i = 0; i < p.symbols.size(); ++i) s += "// size " + std::to_string(i) + ": " + p.symbols[i].quoted() + "\n";
  s += "//\n// Tensors are dense, row-major, little-endian; bool is a byte, 0 or 1; f16 and bf16 are their bits as "
       "uint16_t.\n#pragma once\n";
  s += "#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
  const std::string u = upper(n);
  s += "enum {\n  " + u + "_OK = 0,\n  " + u + "_NO_MEMORY = 1,\n  " + u +
       "_NO_WEIGHTS = 2,      // a weights file is missing or too short\n  " + u +
       "_NO_SIZES = 3,        // set_sizes was not called, or these sizes do not fit the model\n  " + u +
       "_DYNAMIC_SIZE = 4,    // a data-dependent dim is larger than there is room for, or differs between "
       "iterations\n};\n\n";
  s += "enum { " + u + "_INPUTS = " + std::to_string(p.inputs.size()) + ", " + u +
       "_OUTPUTS = " + std::to_string(p.outputs.size()) + ", " + u + "_SIZES = " + std::to_string(p.symbols.size()) + ", " + u +
       "_WEIGHTS = " + std::to_string(p.weights.size()) + " };\n\n";
  s += "typedef struct " + n + "_ctx " + n + "_ctx;\n\n";
  s += "// Maps the weights and prepares them. NULL and an error code where that fails. `folder` holds " + weights_file(p) +
       "; `model_folder`\n";
  s += "// the weight files of the model itself" + std::string(files ? "" : " (none here: it may be NULL)") + ".\n";
  s += n + "_ctx* " + n + "_create(const char* folder, const char* model_folder, int* error);\n";
  s += "// The same with the bytes of each weight as they are stored (one element where all are equal), in the order of\n// " +
       n + "_weight_name; they must outlive the context.\n";
  s += n + "_ctx* " + n + "_create_from(const void* const* weights, int* error);\nconst char* " + n + "_weight_name(int i);\n\n";
  s += "// Gives the sizes above their values and makes room for them. Not needed where there are none.\n";
  s += "int " + n + "_set_sizes(" + n + "_ctx*, const int64_t* sizes);\n";
  s += "size_t " + n + "_arena_size(const " + n + "_ctx*);              // bytes of activations, and of scratch memory\n";
  s +=
      "size_t " + n + "_input_bytes(const " + n + "_ctx*, int i);\nsize_t " + n + "_output_bytes(const " + n + "_ctx*, int i);\n";
  s += "// The size of an axis of an output";
  s += p.lir->extents.empty()
           ? ".\n"
           : " in the last run. Where it depends on what the inputs hold, output_bytes is room for the\n// largest.\n";
  s += "int64_t " + n + "_output_dim(const " + n +
       "_ctx*, int i, int axis);\n\n// One run. Not to be called for one context from two threads at a time.\n";
  for (const State& state : p.lir->states)
    s += "// Input " + std::to_string(state.input) + " and output " + std::to_string(state.output) +
         " are one state: give the same buffer, or null as the input, and it is updated there; another input is copied first.\n";
  s += "int " + n + "_run(" + n + "_ctx*, const void* const* inputs, void* const* outputs);\n";
  s += "void " + n + "_destroy(" + n + "_ctx*);\n\n#ifdef __cplusplus\n}\n#endif\n";
  return s;
}

std::string prototypes(const Package& p) {
  std::string s =
      "// The kernels, in the order in which they are first used.\n#pragma once\n#include <stdbool.h>\n#include <stdint.h>\n\n";
  target::Helpers helpers;
  for (const kernel::Kernel& k : p.kernels) {
    std::string open = target::cpu().open(k, kernel::launch_of(k), helpers);
    s += open.substr(0, open.rfind(" {")) + ";\n";
  }
  return s;
}

std::string weight_table(const Package& p, const Storage& storage) {
  std::vector<ForeignText> files = {ForeignText(weights_file(p))};
  std::string rows;
  uint64_t packed = 0;
  for (const codegen::Weight& w : p.weights) {
    const TensorData& d = data_of(p, w);
    int64_t file = 0;
    uint64_t offset = packed, stored = storage.stored_bytes(w);
    if (!w.data.valid()) {
      file = -1, offset = 0, stored = w.bytes;
    } else if (storage.in_model_file(w)) {
      const auto it = std::ranges::find(files, d.file, &ForeignText::bytes);
      file = it - files.begin();
      if (it == files.end()) files.emplace_back(d.file);
      offset = d.offset;
    } else {
      packed += padded_weight(stored);
    }
    rows += "    {" + w.name.c_string() + ", " + std::to_string(file) + ", " +
            std::to_string(std::max(rlxc::bits(w.dtype) / 8, 1)) + ", " + std::to_string(offset) + "u, " +
            std::to_string(stored) + "u, " + std::to_string(w.bytes) + "u},\n";
  }
  std::string s = "enum { FILES = " + std::to_string(files.size()) + ", WEIGHTS = " + std::to_string(p.weights.size()) +
                  " };\n\n// The first file is the package's own, the others are the model's; -1 is none: only " + p.name +
                  "_create_from can give it.\nstatic const char* const kFiles[FILES] = {";
  for (size_t i = 0; i < files.size(); ++i) s += (i ? ", " : "") + files[i].c_string();
  s += "};\n\ntypedef struct {\n  const char* name;\n  int file, alignment;\n  uint64_t offset, stored, bytes;  // in the file; "
       "stored < bytes: one element, which all are equal to\n} weight_row;\n\n";
  return s + "static const weight_row kWeights[WEIGHTS + 1] = {\n" + rows + "    {\"\", 0, 1, 0, 0, 0}};\n\n";
}

std::string replaced(std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values) {
  return target::expand(text, values);
}

constexpr std::string_view kLauncherHead = R"(// The host side of $N: weights, memory, and the order of the kernels.
#include "$N.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels.h"

enum { RLXC_NO_SIZES = $U_NO_SIZES, RLXC_DYNAMIC_SIZE = $U_DYNAMIC_SIZE };

$TABLEstruct $N_ctx {
  const void* weights[WEIGHTS + 1];
  unsigned char* copies[WEIGHTS + 1];  // of weights that can't be used where they are
  void* maps[FILES];
  size_t map_bytes[FILES];
  unsigned char *packed, *arena, *held, *scratch, *end;
  int64_t n[$COUNT + 1];  // sizes
$EXTENTS  int sized;
};

#define W(i, offset) ((const void*)((const unsigned char*)c->weights[i] + (offset)))
#define P(offset) ((void*)(c->packed + (offset)))
#define A(offset) ((void*)(a + (offset)))
#define H(offset) ((void*)(c->held + (offset)))
#define S(offset) ((void*)(scratch + (offset)))
#define IN(i, offset) ((const void*)((const unsigned char*)in[i] + (offset)))
#define OUT(i, offset) ((void*)((unsigned char*)out[i] + (offset)))

#define UNUSED __attribute__((unused))
// Arithmetic on sizes sets `bad` where it overflows.
static UNUSED int64_t rlxc_add(int* bad, int64_t a, int64_t b) {
  int64_t r = 0;
  *bad |= __builtin_add_overflow(a, b, &r);
  return r;
}
static UNUSED int64_t rlxc_mul(int* bad, int64_t a, int64_t b) {
  int64_t r = 0;
  *bad |= __builtin_mul_overflow(a, b, &r);
  return r;
}
static UNUSED int64_t rlxc_floordiv(int* bad, int64_t a, int64_t b) {
  *bad |= b == -1 && a == INT64_MIN;
  return b == 0 || *bad ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static UNUSED int64_t rlxc_mod(int* bad, int64_t a, int64_t b) { return b == 0 ? 0 : a - rlxc_floordiv(bad, a, b) * b; }
static UNUSED int64_t rlxc_min(int* bad, int64_t a, int64_t b) { return (void)bad, a < b ? a : b; }
static UNUSED int64_t rlxc_max(int* bad, int64_t a, int64_t b) { return (void)bad, a > b ? a : b; }

)";

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

constexpr std::string_view kLauncherTail =
    R"($GUARD$LAPS$LIMIT$FUNCTIONS// Huge pages spare a processor that walks through much memory many look-ups of addresses.
static unsigned char* allocate(int64_t bytes) {
  size_t unit = 64;
#if defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__)
  if (bytes >= 4 << 20) unit = 2 << 20;
#endif
  const size_t size = ((size_t)(bytes > 0 ? bytes : 1) + unit - 1) / unit * unit;
  unsigned char* p = aligned_alloc(unit, size);
#ifdef MADV_HUGEPAGE
  if (p && unit > 64) madvise(p, size, MADV_HUGEPAGE);
#endif
  return p;
}

int $N_set_sizes($N_ctx* c, const int64_t* s) {
  int64_t* n = c->n;
  int bad = 0;
  (void)n, (void)s;
  c->sized = 0;
  for (int i = 0; i < $U_SIZES; ++i)
    if (s[i] < 0) return $U_NO_SIZES;
$SIZES  const int64_t total = rlxc_add(&bad, rlxc_add(&bad, $ARENA, $HELD), $SCRATCH);
  if (bad) return $U_NO_SIZES;
$CONDITIONS  free(c->arena);
  c->arena = allocate(total);
  if (!c->arena) return $U_NO_MEMORY;
  c->held = c->arena + $ARENA;
  c->scratch = c->held + $HELD;
  c->end = c->scratch + $SCRATCH;
  c->sized = 1;
  return $U_OK;
}

size_t $N_arena_size(const $N_ctx* c) {
  const int64_t* n = c->n;
  (void)n;
  return (size_t)($ARENA + $HELD + $SCRATCH);
}

size_t $N_input_bytes(const $N_ctx* c, int i) {
  const int64_t* n = c->n;
  (void)n;
  switch (i) {
$INPUTS    default: return 0;
  }
}

size_t $N_output_bytes(const $N_ctx* c, int i) {
  const int64_t* n = c->n;
  (void)n;
  switch (i) {
$OUTPUTS    default: return 0;
  }
}

$OUTPUT_DIMconst char* $N_weight_name(int i) { return i >= 0 && i < WEIGHTS ? kWeights[i].name : ""; }

// Weights of which one element is stored are written out, misaligned ones are moved.
static int place_weight($N_ctx* c, int i) {
  const weight_row* w = &kWeights[i];
  if (w->bytes == 0 || (w->stored == w->bytes && (uintptr_t)c->weights[i] % (unsigned)w->alignment == 0)) return $U_OK;
  c->copies[i] = allocate((int64_t)w->bytes);
  if (!c->copies[i]) return $U_NO_MEMORY;
  for (uint64_t at = 0; at < w->bytes; at += w->stored) memcpy(c->copies[i] + at, c->weights[i], w->stored);
  c->weights[i] = c->copies[i];
  return $U_OK;
}

static $N_ctx* finish($N_ctx* c, int* error) {
  unsigned char* scratch = allocate($LOAD_SCRATCH);
  c->packed = allocate($PACKED);
  int status = c->packed && scratch ? $U_OK : $U_NO_MEMORY;
  for (int i = 0; !status && i < WEIGHTS; ++i) status = place_weight(c, i);
  if (!status) status = load(c, scratch);
  if (!status && $U_SIZES == 0) status = $N_set_sizes(c, 0);
  free(scratch);
  if (error) *error = status;
  if (!status) return c;
  $N_destroy(c);
  return 0;
}

$N_ctx* $N_create_from(const void* const* weights, int* error) {
  $N_ctx* c = calloc(1, sizeof *c);
  if (!c) {
    if (error) *error = $U_NO_MEMORY;
    return 0;
  }
  for (int i = 0; i < WEIGHTS; ++i) c->weights[i] = weights[i];
  return finish(c, error);
}

static int map_file($N_ctx* c, const char* folder, int i) {
  const size_t length = strlen(folder) + strlen(kFiles[i]) + 2;
  char* path = malloc(length);
  if (!path) return $U_NO_MEMORY;
  strcpy(path, folder), strcat(path, "/"), strcat(path, kFiles[i]);
  const int file = open(path, O_RDONLY);
  free(path);
  struct stat info;
  if (file < 0) return $U_NO_WEIGHTS;
  if (fstat(file, &info) == 0 && info.st_size > 0) {
    void* bytes = mmap(0, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes != MAP_FAILED) c->maps[i] = bytes, c->map_bytes[i] = (size_t)info.st_size;
  }
  close(file);
  return $U_OK;
}

$N_ctx* $N_create(const char* folder, const char* model_folder, int* error) {
  $N_ctx* c = calloc(1, sizeof *c);
  int status = c ? $U_OK : $U_NO_MEMORY;
  for (int i = 0; !status && i < WEIGHTS; ++i) {
    const weight_row* w = &kWeights[i];
    if (w->bytes == 0) continue;
    const char* from = w->file == 0 ? folder : w->file > 0 ? model_folder : 0;
    if (!from || !c->maps[w->file]) status = from ? map_file(c, from, w->file) : $U_NO_WEIGHTS;
    if (!status && (w->offset > c->map_bytes[w->file] || w->stored > c->map_bytes[w->file] - w->offset)) status = $U_NO_WEIGHTS;
    if (!status) c->weights[i] = (const unsigned char*)c->maps[w->file] + w->offset;
  }
  if (!status) return finish(c, error);
  if (error) *error = status;
  if (c) $N_destroy(c);
  return 0;
}

int $N_run($N_ctx* c, const void* const* inputs, void* const* outputs) {
  if (!c->sized) return $U_NO_SIZES;
$STATES  return graph_0(c, c->arena, inputs, outputs);
}

void $N_destroy($N_ctx* c) {
  if (!c) return;
  for (int i = 0; i < FILES; ++i)
    if (c->maps[i]) munmap(c->maps[i], c->map_bytes[i]);
  for (int i = 0; i < WEIGHTS; ++i) free(c->copies[i]);
  free(c->packed), free(c->arena), free(c);
}
)";

std::string extents_member(const Package& p) {
  if (p.lir->extents.empty()) return {};
  std::string names;
  for (const DataDependentDim& e : p.lir->extents) names += (names.empty() ? "" : ", ") + e.symbol.quoted();
  return "  int64_t x[" + std::to_string(p.lir->extents.size()) + "];  // extents of the last run: " + names + "\n";
}

// The function <name>_output_dim.
std::string output_dims(const Package& p, CSizes& sizes) {
  std::string s =
      "int64_t " + p.name + "_output_dim(const " + p.name + "_ctx* c, int i, int axis) {\n  const int64_t* n = c->n;\n";
  if (!p.lir->extents.empty()) s += "  const int64_t* x = c->x;\n  (void)x;\n";
  s += "  int bad = 0;\n  (void)bad, (void)n, (void)axis;\n  switch (i) {\n";
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    std::string list;
    for (Dim d : p.lir->module->main().dims(p.outputs[i].value)) list += (list.empty() ? "" : ", ") + sizes(d);
    if (list.empty()) continue;
    s += "    case " + std::to_string(i) + ": return (const int64_t[]){" + list + "}[axis];\n";
  }
  return s + "    default: return 0;\n  }\n}\n\n";
}

std::string launcher(const Package& p, const Storage& storage, const CpuPackageOptions& o) {
  CSizes sizes(p.lir->module->dims, p.symbols, p.lir->extents);
  const std::string functions = launcher_functions(p, o, &sizes);
  auto ports = [&](const std::vector<codegen::Port>& list) {
    std::string s;
    for (size_t i = 0; i < list.size(); ++i)
      s += "    case " + std::to_string(i) + ": return (size_t)" +
           sizes(p.lir->plans[list[i].graph.raw].slot[list[i].value.raw].size) + ";\n";
    return s;
  };
  const std::string inputs = ports(p.inputs), outputs = ports(p.outputs);
  const std::string output_dim = output_dims(p, sizes);
  // What the plan and the model need of sizes.
  std::string conditions;
  for (size_t i = 0; i < p.symbols.size(); ++i)
    if (const auto range = p.lir->ranges.find(p.symbols[i].bytes()); range != p.lir->ranges.end())
      conditions += "  if (s[" + std::to_string(i) + "] < " + std::to_string(range->second.low->size()) + " || s[" +
                    std::to_string(i) + "] > " + std::to_string(range->second.high->size()) + ") return " + upper(p.name) +
                    "_NO_SIZES;\n";
  const std::vector<Dim> equal = equal_sizes(p);
  for (size_t i = 0; i < equal.size(); i += 2)
    conditions += "  if (" + sizes(equal[i]) + " != " + sizes(equal[i + 1]) + ") return " + upper(p.name) + "_NO_SIZES;\n";
  std::string states =
      o.max_operations ? "  rlxc_left = " + std::to_string(std::min<uint64_t>(o.max_operations, INT64_MAX)) + ";\n" : "";
  for (const State& s : p.lir->states) {
    const std::string in = "inputs[" + std::to_string(s.input) + "]", out = "outputs[" + std::to_string(s.output) + "]";
    states += "  if (" + in + " && " + in + " != " + out + ") memcpy(" + out + ", " + in + ", " + p.name + "_input_bytes(c, " +
              std::to_string(s.input) + "));\n";
  }
  const std::string arena = sizes(p.arena_bytes), held = sizes(p.held_bytes), scratch = sizes(p.scratch_bytes);
  const std::vector<std::pair<std::string_view, std::string>> values = {
      {"TABLE", weight_table(p, storage)},
      {"COUNT", std::to_string(sizes.count())},
      {"EXTENTS", extents_member(p)},
      {"OUTPUT_DIM", output_dim},
      {"GUARD", o.guard ? replaced(kGuard, {{"N", p.name}}) : std::string()},
      {"LIMIT", o.max_operations ? replaced(kLimit, {{"N", p.name}}) : std::string()},
      {"LAPS", o.laps ? replaced(kLaps, {{"N", p.name}, {"STEPS", std::to_string(p.run_steps() + 1)}}) : std::string()},
      {"FUNCTIONS", functions},
      {"SIZES", sizes.table()},
      {"CONDITIONS", conditions},
      {"ARENA", arena},
      {"HELD", held},
      {"SCRATCH", scratch},
      {"INPUTS", inputs},
      {"OUTPUTS", outputs},
      {"STATES", states},
      {"LOAD_SCRATCH", sizes(p.load_scratch_bytes)},
      {"PACKED", sizes(p.packed_bytes)},
      {"N", p.name},
      {"U", upper(p.name)}};
  return replaced(kLauncherHead, values) + replaced(kLauncherTail, values);
}

constexpr std::string_view kMain =
    R"(// Runs $N on raw files and writes output_<i>.bin; with --repeat N it runs N times more and prints how long that took.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "$N.h"

static const char* const kSizes[$U_SIZES + 1] = {$NAMES0};
static const struct {
  int rank, element_bits;
} kOutputs[$U_OUTPUTS + 1] = {$SHAPES{0, 0}};

static double milliseconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Wall time and processor time (of all threads) of a run.
static int time_runs($N_ctx* c, const void* const* inputs, void* const* outputs, int count) {
  double* wall = malloc(2 * sizeof(double) * (size_t)count);
  double* busy = wall + count;
  int error = wall ? 0 : $U_NO_MEMORY;
  for (int i = 0; !error && i < count; ++i) {
    const double start = milliseconds(CLOCK_MONOTONIC), start_busy = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
    error = $N_run(c, inputs, outputs);
    wall[i] = milliseconds(CLOCK_MONOTONIC) - start, busy[i] = milliseconds(CLOCK_PROCESS_CPUTIME_ID) - start_busy;
  }
  if (!error) {
    qsort(wall, (size_t)count, sizeof *wall, ascending), qsort(busy, (size_t)count, sizeof *busy, ascending);
    printf("ms of %d runs: wall min %.4f median %.4f, processor min %.4f median %.4f\n", count, wall[0], wall[count / 2], busy[0],
           busy[count / 2]);
  }
  free(wall);
  return error;
}

int main(int argc, char** argv) {
  int64_t sizes[$U_SIZES + 1] = {0};
  const char* files[$U_INPUTS + 1] = {0};
  const char *folder = ".", *model_folder = ".";
  int given = 0, error = 0, repeat = 0;
  for (int i = 1; i < argc; ++i) {
    int is_size = 0;
    for (int s = 0; s < $U_SIZES; ++s) {
      const size_t length = strlen(kSizes[s]);
      if (strncmp(argv[i], kSizes[s], length) == 0 && argv[i][length] == '=') sizes[s] = strtoll(argv[i] + length + 1, 0, 10), is_size = 1;
    }
    if (is_size) continue;
    if (strcmp(argv[i], "-w") == 0 && i + 1 < argc) folder = argv[++i];
    else if (strcmp(argv[i], "-m") == 0 && i + 1 < argc) model_folder = argv[++i];
    else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc) repeat = atoi(argv[++i]);
    else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) setenv("RLXC_THREADS", argv[++i], 1);
    else if (given++ < $U_INPUTS) files[given - 1] = argv[i];
  }
  if (given != $U_INPUTS) {
    fprintf(stderr, "usage: %s [-w FOLDER] [-m MODEL_FOLDER] [--threads N] [--repeat N] [SIZE=VALUE...] INPUT...\n", argv[0]);
    return 2;
  }
  $N_ctx* c = $N_create(folder, model_folder, &error);
  if (c && $U_SIZES > 0) error = $N_set_sizes(c, sizes);
  void* inputs[$U_INPUTS + 1] = {0};
  void* outputs[$U_OUTPUTS + 1] = {0};
  for (int i = 0; !error && i < $U_INPUTS; ++i) {
    const size_t bytes = $N_input_bytes(c, i);
    FILE* f = fopen(files[i], "rb");
    inputs[i] = malloc(bytes + 1);
    if (!f || !inputs[i] || fread(inputs[i], 1, bytes, f) != bytes) {
      fprintf(stderr, "%s: can't read %zu bytes\n", files[i], bytes);
      return 3;
    }
    fclose(f);
  }
  for (int i = 0; !error && i < $U_OUTPUTS; ++i) {
    outputs[i] = malloc($N_output_bytes(c, i) + 1);
    if (!outputs[i]) return 3;
  }
  if (!error) error = $N_run(c, (const void* const*)inputs, outputs);
  if (!error && repeat > 0) error = time_runs(c, (const void* const*)inputs, outputs, repeat);
  for (int i = 0; !error && i < $U_OUTPUTS; ++i) {
    char name[64];
    snprintf(name, sizeof name, "output_%d.bin", i);
    size_t bytes = (size_t)kOutputs[i].element_bits;
    printf("%s [", name);
    for (int axis = 0; axis < kOutputs[i].rank; ++axis) {
      const int64_t size = $N_output_dim(c, i, axis);
      printf("%s%lld", axis > 0 ? "," : "", (long long)size);
      bytes *= (size_t)size;
    }
    printf("]\n");
    bytes = (bytes + 7) / 8;
    FILE* f = fopen(name, "wb");
    if (!f || fwrite(outputs[i], 1, bytes, f) != bytes) error = 6;
    if (f) fclose(f);
  }
  if (error) fprintf(stderr, "$N: error %d (see $N.h)\n", error);
  $N_destroy(c);
  for (int i = 0; i < $U_INPUTS; ++i) free(inputs[i]);
  for (int i = 0; i < $U_OUTPUTS; ++i) free(outputs[i]);
  return error;
}
)";

std::string makefile(const Package& p, size_t files) {
  std::string objects = p.name + ".o parallel.o";
  for (size_t i = 0; i < files; ++i) objects += " kernels_" + std::to_string(i) + ".o";
  return "# make builds lib" + p.name +
         ".a and the test runner `run`.\nCC ?= cc\nCFLAGS ?= -O3 -march=native\nOWN = -std=gnu11 -fwrapv -fno-strict-aliasing "
         "-fPIC -pthread -Wno-psabi\nOBJECTS = " +
         objects + "\n\nrun: main.o lib" + p.name + ".a\n\t$(CC) $(CFLAGS) -o $@ $^ -pthread -lm\n\nlib" + p.name +
         ".a: $(OBJECTS)\n\t$(AR) rcs $@ $^\n\n%.o: %.c\n\t$(CC) $(CFLAGS) $(OWN) -c -o $@ $<\n\nclean:\n\trm -f *.o lib" +
         p.name + ".a run\n\n.PHONY: clean\n";
}

std::string readme(const Package& p, const Storage& storage) {
  uint64_t own = 0;
  std::set<ForeignText> files;
  for (const codegen::Weight& w : p.weights) {
    if (storage.in_model_file(w)) files.emplace(data_of(p, w).file);
    else own += padded_weight(storage.stored_bytes(w));
  }
  std::string s = "# " + p.name + "\n\nA model compiled to C by rlxc: " + std::to_string(p.kernels.size()) + " kernels, " +
                  std::to_string(p.weights.size()) + " weights.\n\n";
  s += "| file | content |\n|---|---|\n| `" + p.name + ".h` | the C API, inputs and outputs |\n| `" + p.name +
       ".c` | weights, memory, the order of the kernels |\n";
  s += "| `kernels_*.c` | the kernels; each says which nodes of the model it computes |\n| `parallel.c` | threads |\n| `main.c` "
       "| a test runner on raw files |\n";
  s += "| `" + weights_file(p) + "` | " + std::to_string(own) + " bytes of weights, each aligned to 64 bytes |\n\n";
  s += "Build with `make` (gcc or clang). Run with `./run INPUT...`";
  if (files.empty()) {
    s += "; `-w FOLDER` says where `" + weights_file(p) + "` is, if not here.\n";
  } else {
    s += " and `-m FOLDER`, the folder of the model: these weight files are read where they are:\n\n";
    for (const ForeignText& f : files) s += "- `" + f.markdown() + "`\n";
  }
  s += "\n| tensor | name | type |\n|---|---|---|\n";
  for (size_t i = 0; i < p.inputs.size(); ++i)
    s += "| input " + std::to_string(i) + " | " + p.inputs[i].name.markdown() + " | " +
         ForeignText(shape_text(p, p.inputs[i])).markdown() + " |\n";
  for (size_t i = 0; i < p.outputs.size(); ++i)
    s += "| output " + std::to_string(i) + " | " + p.outputs[i].name.markdown() + " | " +
         ForeignText(shape_text(p, p.outputs[i])).markdown() + " |\n";
  return s;
}

}  // namespace

uint64_t padded_weight(uint64_t bytes) { return align_up(bytes, 64).value_or(bytes); }

std::string weights_file(const Package& p) { return p.name + ".weights"; }

std::vector<TextFile> write_cpu_package(const Package& p, const CpuPackageOptions& o) {
  const Storage storage(p, o);
  std::vector<TextFile> files = {{p.name + ".h", header(p, storage.has_model_files())},
                                 {p.name + ".c", launcher(p, storage, o)},
                                 {"kernels.h", prototypes(p)}};
  size_t count = 0;
  for (size_t first = 0; first < p.kernels.size(); first += kKernelsInFile, ++count) {
    std::vector<const kernel::Kernel*> kernels;
    for (size_t i = first; i < std::min(first + kKernelsInFile, p.kernels.size()); ++i) kernels.push_back(&p.kernels[i]);
    files.push_back({"kernels_" + std::to_string(count) + ".c", target::render(kernels, target::cpu())});
  }
  files.push_back({"parallel.c", std::string(target::parallel_runtime(o.threads))});
  std::string names;
  for (const ForeignText& s : p.symbols) names += s.c_string() + ", ";
  std::string shapes;
  for (const codegen::Port& out : p.outputs) {
    const Type& t = p.lir->module->main().type(out.value);
    shapes += "{" + std::to_string(t.rank()) + ", " + std::to_string(rlxc::bits(t.dtype)) + "}, ";
  }
  files.push_back({"main.c", replaced(kMain, {{"NAMES", names}, {"SHAPES", shapes}, {"N", p.name}, {"U", upper(p.name)}})});
  files.push_back({"Makefile", makefile(p, count)});
  files.push_back({"README.md", readme(p, storage)});
  return files;
}

bool write_weights(const Package& p, const CpuPackageOptions& o, const std::function<bool(std::span<const std::byte>)>& write) {
  const Storage storage(p, o);
  const std::byte zeros[64] = {};
  for (const codegen::Weight& w : p.weights) {
    if (storage.in_model_file(w)) continue;
    const uint64_t bytes = storage.stored_bytes(w);
    if (!write(data_of(p, w).bytes) ||
        (padded_weight(bytes) > bytes && !write(std::span(zeros).first(padded_weight(bytes) - bytes))))
      return false;
  }
  return true;
}

bool write_weights_file(const Package& p, const CpuPackageOptions& o, const std::string& folder) {
  std::ofstream out(folder + "/" + weights_file(p), std::ios::binary);
  const bool written = write_weights(p, o, [&](std::span<const std::byte> b) {
    return static_cast<bool>(out.write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size())));
  });
  out.close();
  return written && out.good();
}

}  // namespace rlxc
