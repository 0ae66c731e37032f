#include "backend/gpu/device_package.h"

#include <algorithm>

#include "backend/c/render.h"
#include "backend/dispatch.h"
#include "backend/gpu/bind_memory.h"
#include "backend/gpu/launch_json.h"
#include "backend/gpu/wgpu.h"
#include "backend/host_files.h"
#include "backend/targets.h"
#include "backend/weight_files.h"
#include "kernel/simplify.h"
#include "support/json_writer.h"

namespace rlxc {
namespace {

using codegen::Package;

struct HostPart {
  std::string_view from, to;  // name in a host folder, name in the package
};

struct DeviceRow {
  target::TargetId id;
  size_t kernels_in_file;  // 0: each in a file named after it
  bool binds_apart;        // each weight, and only so many bytes at a time
  void (*prepare)(kernel::Kernel&);
  std::string (*refuses)(const kernel::Kernel&);
  std::vector<HostPart> host;
  std::string_view makefile;  // $FILES: what the kernel sources are compiled to
  std::string_view how;       // for the README: how to build and run
};

void narrow_proven(kernel::Kernel& k) { kernel::narrow_indices(k); }
std::string refuse_nothing(const kernel::Kernel&) { return ""; }

constexpr std::string_view kCudaMakefile =
    R"(# make builds the kernels for the kinds of GPU in ARCHS (make ARCHS=90 for one of them), and the runner `run`.
NVCC ?= nvcc
ARCHS ?= 80 90
KERNELS = $FILES

all: $(KERNELS) run

%.fatbin: %.cu
	$(NVCC) -std=c++17 -O3 $(foreach a,$(ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) -fatbin -o $@ $<

run: main.cpp device.hpp program.hpp
	$(NVCC) -std=c++17 -O2 -o $@ main.cpp -lcuda

clean:
	rm -f *.fatbin run

.PHONY: all clean
)";

constexpr std::string_view kRocmMakefile = R"(# make ARCH=gfx942 builds the kernels for one kind of GPU, and the runner `run`.
HIPCC ?= hipcc
ARCH ?= gfx90a
KERNELS = $FILES

all: $(KERNELS) run

%.hsaco: %.hip.cpp
	$(HIPCC) -std=c++17 -O3 --genco --offload-arch=$(ARCH) -o $@ $<

run: main.cpp device.hpp program.hpp
	$(HIPCC) -std=c++17 -O2 -DRLXC_HIP --offload-arch=$(ARCH) -o $@ main.cpp

clean:
	rm -f *.hsaco run

.PHONY: all clean
)";

constexpr std::string_view kMetalMakefile = R"(# make builds the kernels and the runner `run` (needs Xcode's command line tools).
KERNELS = $FILES

all: $(KERNELS) run

%.metallib: %.metal
	xcrun -sdk macosx metal -std=metal3.1 -fno-fast-math -O2 -o $@ $<

run: main.cpp device.hpp program.hpp
	clang++ -std=c++17 -O2 -fobjc-arc -x objective-c++ -o $@ main.cpp -framework Foundation -framework Metal

clean:
	rm -f *.metallib run

.PHONY: all clean
)";

constexpr std::string_view kMakeRun =
    "Build with `make`. Then, in this folder, `./run WEIGHTS [SIZE=VALUE...] INPUT...` runs the model on raw files and writes "
    "output_<i>.bin.";
constexpr std::string_view kWebRun =
    "In Node, with the npm package `webgpu`: `node run.mjs WEIGHTS [SIZE=VALUE...] INPUT...` runs the model on raw files and "
    "writes output_<i>.bin. In a browser with "
    "WebGPU: serve this folder, with the weights files in it, and open index.html. 64-bit integers are computed with 32 bits; "
    "f16 and bf16 with f32.";

const std::vector<DeviceRow>& rows() {
  using target::TargetId;
  static const std::vector<HostPart> cuda = {
      {"program.hpp", "program.hpp"}, {"device_cuda.hpp", "device.hpp"}, {"main.cc", "main.cpp"}};
  static const std::vector<HostPart> metal = {
      {"program.hpp", "program.hpp"}, {"device_metal.hpp", "device.hpp"}, {"main.cc", "main.cpp"}};
  static const std::vector<HostPart> web = {{"rlxc.mjs", "rlxc.mjs"}, {"run.mjs", "run.mjs"}, {"index.html", "index.html"}};
  static const std::vector<DeviceRow> table = {
      {TargetId::Cuda, 64, false, narrow_proven, refuse_nothing, cuda, kCudaMakefile, kMakeRun},
      {TargetId::Rocm, 64, false, narrow_proven, refuse_nothing, cuda, kRocmMakefile, kMakeRun},
      {TargetId::Metal, 64, false, narrow_proven, refuse_nothing, metal, kMetalMakefile, kMakeRun},
      {TargetId::Wgpu, 0, true, target::wgpu_prepare, target::wgpu_refuses, web, "", kWebRun},
  };
  return table;
}

const DeviceRow* find_row(std::string_view name) {
  for (const DeviceRow& r : rows())
    if (target::target(r.id).name == name) return &r;
  return nullptr;
}

std::string file_name(const DeviceRow& row, const Package& p, size_t file, const std::vector<uint32_t>& kernels) {
  const std::string stem = row.kernels_in_file ? "kernels_" + std::to_string(file) : p.kernels[kernels[0]].name;
  return stem + "." + std::string(target::target(row.id).extension);
}

std::string readme(const Package& p, const DeviceRow& row, const CpuPackageOptions& options) {
  const target::Target& t = target::target(row.id);
  const Module& m = *p.lir->module;
  const WeightFiles located = locate_weights(p, options);
  std::string s = "# " + p.name + "\n\nA model compiled by rlxc for " + std::string(t.name) + " (" + std::string(t.emits) +
                  "): " + std::to_string(p.kernels.size()) + " kernels, " + std::to_string(p.weights.size()) +
                  " weights.\n\n| file | content |\n|---|---|\n";
  s += "| `" + std::string(row.kernels_in_file ? "kernels_*" : "*") + "." + std::string(t.extension) +
       "` | the kernels; each says which nodes of the model it computes |\n";
  s += "| `launch.json` | memory, weights, and the order of the kernels, as data |\n";
  for (const HostPart& h : row.host) s += "| `" + std::string(h.to) + "` | host |\n";
  s += "\n" + std::string(row.how) + " WEIGHTS is the folder with";
  s += located.packed_bytes > 0 ? " `" + weights_file(p) + "` (" + std::to_string(located.packed_bytes) + " bytes)"
                                : std::string(" no own files");
  for (size_t i = 1; i < located.files.size() && i < 4; ++i)
    s += (i > 1 || located.packed_bytes > 0 ? ", `" : " but `") + located.files[i] + "`";
  s += located.files.size() > 4 ? " and other files of the model.\n" : ".\n";
  s += "\n| tensor | name | type |\n|---|---|---|\n";
  for (const auto& [kind, ports] : {std::pair{"input ", &p.inputs}, std::pair{"output ", &p.outputs}})
    for (size_t i = 0; i < ports->size(); ++i)
      s += "| " + std::string(kind) + std::to_string(i) + " | " + (*ports)[i].name + " | " +
           text(m.graph((*ports)[i].graph).type((*ports)[i].value), m.dims) + " |\n";
  return s;
}

}  // namespace

bool is_device_target(std::string_view name) { return find_row(name) != nullptr; }

std::optional<codegen::CapabilityRow> capability(std::string_view name) {
  return name == "cpu" ? codegen::CapabilityRow() : capability_row(name);
}

std::optional<Package> adapt_package(const Package& original, std::string_view name, Diagnostics& d) {
  const DeviceRow& row = *find_row(name);
  Package p = original;
  if (row.binds_apart) bind_memory(&p, p.lir->max_binding, d);
  for (kernel::Kernel& k : p.kernels) {
    row.prepare(k);
    const std::string why = row.refuses(k);
    if (why.empty()) continue;
    std::string nodes;
    for (const std::string& line : k.comments)
      if (line.starts_with("node ") || line.starts_with("and ")) nodes += (nodes.empty() ? "" : ", ") + line;
    d.error(Code::UnsupportedOnTarget, "the " + std::string(name) + " target: " + why,
            nodes.empty() ? "kernel " + k.name : nodes);
  }
  if (!d.ok()) return std::nullopt;
  return p;
}

std::vector<std::vector<uint32_t>> kernel_files(const Package& p, std::string_view name) {
  const size_t in_file = std::max<size_t>(find_row(name)->kernels_in_file, 1);
  std::vector<std::vector<uint32_t>> files;
  for (uint32_t i = 0; i < p.kernels.size(); ++i) {
    if (i % in_file == 0) files.emplace_back();
    files.back().push_back(i);
  }
  return files;
}

std::vector<TextFile> write_device_package(const Package& p, std::string_view name, const CpuPackageOptions& options) {
  const DeviceRow& row = *find_row(name);
  const target::Target& t = target::target(row.id);
  std::vector<TextFile> files;
  std::vector<std::string> file_of(p.kernels.size());
  std::string built;
  const auto groups = kernel_files(p, name);
  for (size_t f = 0; f < groups.size(); ++f) {
    std::vector<const kernel::Kernel*> kernels;
    const std::string file = file_name(row, p, f, groups[f]);
    for (uint32_t i : groups[f]) kernels.push_back(&p.kernels[i]), file_of[i] = file;
    files.push_back({file, target::render(kernels, t.language())});
    built += (f ? " " : "") + file.substr(0, file.find('.')) +
             (row.id == target::TargetId::Cuda   ? ".fatbin"
              : row.id == target::TargetId::Rocm ? ".hsaco"
                                                 : ".metallib");
  }
  files.push_back({"launch.json", ""});
  {
    JsonWriter j(files.back().content);
    write_launch_json(p, name, file_of, options, j);
  }
  for (const HostPart& part : row.host)
    for (const HostFile& h : host_files())
      if (h.name == part.from) files.push_back({std::string(part.to), std::string(h.text)});
  if (!row.makefile.empty())
    files.push_back({"Makefile", target::expand(row.makefile, {{"FILES", built}, {"(", "$("}, {"@", "$@"}, {"<", "$<"}})});
  files.push_back({"README.md", readme(p, row, options)});
  return files;
}

}  // namespace rlxc
