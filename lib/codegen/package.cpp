#include "codegen/package.h"

#include <algorithm>
#include <string_view>

namespace rlxc::codegen {

Type whole_type(const Package& p, const Port& port) {
  Type t = p.lir->module->graph(port.graph).type(port.value);
  if (!port.part) return t;
  Dim& d = t.dims[static_cast<size_t>(port.part->axis)];
  d = p.lir->module->dims.mul(d, Dim(port.part->devices));
  return t;
}

size_t extent_cells(const Package& p) { return p.lir->extents.size() + (p.lir->check_indices ? 1 : 0); }

uint64_t loop_cell(const Package& p, uint64_t loop) { return (extent_cells(p) * 8 + 63) / 64 * 64 + 128 * loop; }

uint64_t cell_bytes(const Package& p) {
  uint64_t loops = 0;
  for (const GraphProgram& g : p.graphs)
    loops += static_cast<uint64_t>(std::ranges::count(g.run, Command::Kind::Loop, &Command::kind));
  return loop_cell(p, loops);
}

std::string package_name(const Module& m) {
  // Package files, prefixes of package and C library functions, R_OK to X_OK of unistd.h, and headers.
  constexpr std::string_view kTaken[] = {
      "main",   "parallel", "weights", "cnd",     "mtx",   "sem",    "thrd",   "timer",    "tss",  "f",      "r",
      "w",      "x",        "assert",  "complex", "ctype", "errno",  "fcntl",  "features", "fenv", "float",  "limits",
      "locale", "malloc",   "math",    "memory",  "sched", "setjmp", "signal", "string",   "time", "unistd", "wchar"};
  constexpr std::string_view kPrefixes[] = {"kernels", "posix", "pthread", "rlxc", "std"};
  const std::string name = m.name.identifier("model_");
  std::string lower = name;  // file systems may be case-insensitive
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const bool taken = std::ranges::count(kTaken, lower) > 0 ||
                     std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return lower.starts_with(prefix); });
  return taken ? "model_" + name : name;
}

}  // namespace rlxc::codegen
