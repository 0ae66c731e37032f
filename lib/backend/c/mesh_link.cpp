#include "backend/c/mesh_link.h"

#include <algorithm>

#include "backend/c/c_like.h"
#include "backend/host_files.h"
#include "backend/package_text.h"
#include "support/text.h"

namespace rlxc {
namespace {

using codegen::Package;
using LinkValues = std::vector<std::pair<std::string, std::string>>;

std::string link_file(std::string_view name, const LinkValues& values) {
  std::vector<std::pair<std::string_view, std::string>> list(values.begin(), values.end());
  for (const HostFile& h : host_files())
    if (h.name == name) return target::expand(h.text, list);
  return {};
}

// Rows for the ports of which a device has a part.
std::string part_rows(const std::vector<codegen::Port>& ports) {
  std::string s;
  for (const codegen::Port& port : ports)
    s += port.part ? "    {" + std::to_string(port.part->group) + ", " + std::to_string(port.part->axis) + ", " +
                         std::to_string(port.part->devices) + ", " + std::to_string(port.part->blocks) + "},\n"
                   : "    {-1, 0, 1, 1},\n";
  return s;
}

int most_dims(const Package& p) {
  int most = 1;
  for (const auto* ports : {&p.inputs, &p.outputs})
    for (const codegen::Port& port : *ports) most = std::max(most, p.lir->module->graph(port.graph).rank(port.value));
  return most;
}

LinkValues mesh_values(const Package& p) {
  std::string axes, groups;
  for (const MeshAxis& a : p.mesh->axes)
    axes += (axes.empty() ? "" : ", ") + ("{\"" + a.name + "\", " + std::to_string(a.size) + "}");
  for (const std::vector<size_t>& along : p.groups) {
    groups += "    {";
    for (size_t a : along) groups += std::to_string(a) + ", ";
    groups += "-1},\n";
  }
  // Longer keys come first.
  return {{"DEVICE_COUNT", std::to_string(p.mesh->devices())},
          {"AXIS_COUNT", std::to_string(p.mesh->axes.size())},
          {"GROUP_COUNT", std::to_string(p.groups.size())},
          {"AXIS_ROWS", axes},
          {"OUTPUT_PARTS", part_rows(p.outputs)},
          {"INPUT_PARTS", part_rows(p.inputs)},
          {"MOST_DIMS", std::to_string(most_dims(p))},
          {"GROUP_ROWS", groups},
          {"MESH", p.mesh->text()},
          {"N", p.name},
          {"U", upper(p.name)}};
}

constexpr std::string_view kSliceFunctions =
    R"(// Reads the part of a weight that belongs to this device, from file i or, if `whole` is given, from memory.
static UNUSED int read_bytes(int file, unsigned char* to, uint64_t bytes, uint64_t offset) {
  while (bytes > 0) {
    const ssize_t n = pread(file, to, bytes < 1u << 30 ? bytes : 1u << 30, (off_t)offset);
    if (n <= 0) return $U_NO_WEIGHTS;
    to += n, bytes -= (uint64_t)n, offset += (uint64_t)n;
  }
  return $U_OK;
}

static UNUSED int take_slice($N_ctx* c, int i, int file, const unsigned char* whole) {
  const weight_row* w = &kWeights[i];
  const int64_t at = position_in(w->group), own = own_bytes((int64_t)w->run, (int64_t)w->whole, at);
  c->weights[i] = c->copies[i] = $N_allocate(w->bytes);
  int status = c->copies[i] ? $U_OK : $U_NO_MEMORY;
  if (!status && whole) take_runs(c->copies[i], whole, (int64_t)w->runs, (int64_t)w->run, (int64_t)w->whole, at);
  for (uint64_t r = 0; !status && !whole && r < w->runs; ++r) {
    unsigned char* to = c->copies[i] + r * w->run;
    if (own > 0) status = read_bytes(file, to, (uint64_t)own, w->offset + r * w->whole + (uint64_t)at * w->run);
    memset(to + own, 0, w->run - (uint64_t)own);
  }
  return status;
}

static UNUSED int open_weights(const char* folder, int i) {
  char path[4096];
  const int length = folder ? snprintf(path, sizeof path, "%s/%s", folder, kFiles[i]) : -1;
  return length < 0 || length >= (int)sizeof path ? -1 : open(path, O_RDONLY | O_CLOEXEC);
}

static UNUSED int slice_of_file($N_ctx* c, int i, const char* folder) {
#if EMBEDDED
  if (kWeights[i].file == 0) return take_slice(c, i, -1, c->weights[i]);
#endif
  const int file = open_weights(folder, kWeights[i].file);
  const int status = file < 0 ? $U_NO_WEIGHTS : take_slice(c, i, file, NULL);
  if (file >= 0) close(file);
  return status;
}

)";

// Which devices run the commands and read the weights of some stages.
std::string stage_function(std::optional<size_t> pipeline) {
  return pipeline ? "static inline int computes(unsigned stages) { return (int)(stages >> position_in(" +
                        std::to_string(*pipeline) + ") & 1); }\n\n"
                  : "";
}

}  // namespace

std::optional<size_t> pipeline_group(const Package& p) {
  const auto stages = stages_of(p.lir->module->main());
  if (!stages) return std::nullopt;
  return static_cast<size_t>(std::ranges::find(p.groups, std::vector{stages->axis}) - p.groups.begin());
}

bool has_parts(std::span<const codegen::Port> ports) {
  return std::ranges::any_of(ports, [](const codegen::Port& port) { return port.part.has_value(); });
}

LinkValues link_values(const Package& p) {
  constexpr std::string_view kKeys[] = {"LINK_CODE_FUNCTIONS", "LINK_ERROR",      "LINK_API",    "LINK_CODE",     "LINK_MESSAGE",
                                        "LINK_INCLUDE",        "LINK_BEGIN",      "LINK_OBJECT", "LINK_RULE",     "LINK_SOURCE",
                                        "LINK_LIBRARY",        "LINK_PACKAGE",    "FIRST_RANK",  "SLICED_DONE",   "SLICE_MEMORY",
                                        "SLICE_FILE",          "SLICE_FUNCTIONS", "ELSEWHERE",   "PART_FUNCTIONS"};
  if (!p.mesh) {
    LinkValues none{{"LINK_END", "failed"},
                    {"LINK_CC", "$(CC)"},
                    {"READ_INPUT", "read_input(files[i], inputs[i], bytes)"},
                    {"WRITES_OUTPUT", ""},
                    {"WRITE_OUTPUT", "write_output"}};
    for (std::string_view key : kKeys) none.emplace_back(key, "");
    return none;
  }
  const LinkValues mesh = mesh_values(p);
  const std::string u = upper(p.name);
  const auto pipeline = pipeline_group(p);
  const std::string elsewhere = pipeline ? " || !computes(kWeights[i].stages)" : "";
  const auto expanded = [&](std::string_view text) { return target::expand(text, {{"N", p.name}, {"U", u}}); };
  const bool parts = has_parts(p.inputs);
  return {
      {"PART_FUNCTIONS", parts ? link_file("package_parts.c.in", mesh) : ""},
      {"READ_INPUT", parts ? "read_ranks_input(c, i, files[i], inputs[i])" : "read_input(files[i], inputs[i], bytes)"},
      {"WRITES_OUTPUT", parts ? "" : " && link_rank() == 0"},
      {"WRITE_OUTPUT", parts ? "write_ranks_output" : "write_output"},
      {"LINK_END", "link_end(failed)"},
      {"LINK_CC", "$(MPICC)"},
      {"LINK_CODE_FUNCTIONS", link_file("package_link.c.in", mesh) + stage_function(pipeline)},
      {"ELSEWHERE", elsewhere},
      {"LINK_ERROR", expanded("  $U_LINK = 12,        // no link was joined, or another device failed\n")},
      {"LINK_API", link_file("package_link.h.in", mesh)},
      {"LINK_CODE", expanded(", RLXC_LINK = $U_LINK")},
      {"LINK_MESSAGE", expanded("    case $U_LINK: return \"no link was joined, or another device failed\";\n")},
      {"LINK_INCLUDE", "#include \"mpi_link.h\"\n"},
      {"LINK_BEGIN", "  const int joined = link_begin(&argc, &argv);\n  if (joined) return joined;\n"},
      {"LINK_OBJECT", " mpi_link.o"},
      {"LINK_RULE",
       "MPICC ?= mpicc\nmpi_link.o: mpi_link.c mpi_link.h " + p.name + ".h\n\t$(MPICC) $(CFLAGS) $(OWN) -c -o $@ $<\n\n"},
      {"LINK_SOURCE", " mpi_link.c"},
      {"LINK_LIBRARY", " MPI::MPI_C"},
      {"LINK_PACKAGE", "find_package(MPI REQUIRED COMPONENTS C)\n"},
      {"FIRST_RANK", " && link_rank() == 0"},
      {"SLICED_DONE", "  if (w->group >= 0" + elsewhere + ") return " + u + "_OK;\n"},
      {"SLICE_MEMORY",
       "    if (kWeights[i].bytes == 0" + elsewhere +
           ") continue;\n    if (!status && kWeights[i].group >= 0) status = take_slice(c, i, -1, weights[i]);\n"},
      {"SLICE_FILE", "    if (!status && w->group >= 0) status = slice_of_file(c, i, w->file == 0 ? folder : model_folder);\n"},
      {"SLICE_FUNCTIONS", expanded(kSliceFunctions)}};
}

std::vector<uint32_t> weight_stages(const Package& p) {
  if (!p.mesh || !stages_of(p.lir->module->main())) return {};
  std::vector<uint32_t> stages(p.weights.size());
  for (const codegen::GraphProgram& g : p.graphs)
    for (const auto* commands : {&g.load, &g.run})
      for (const codegen::Command& s : *commands)
        for (const codegen::BufferSlice& at : s.places)
          if (at.memory == codegen::BufferSlice::Memory::Weights) stages[at.index] |= s.stages;
  return stages;
}

std::vector<TextFile> link_files(const Package& p) {
  if (!p.mesh) return {};
  const LinkValues mesh = mesh_values(p);
  return {{"mpi_link.h", link_file("mpi_link.h.in", mesh)}, {"mpi_link.c", link_file("mpi_link.c.in", mesh)}};
}

}  // namespace rlxc
