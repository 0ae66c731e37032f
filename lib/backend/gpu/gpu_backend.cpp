#include "backend/gpu/gpu_backend.h"

#include <algorithm>

#include "backend/c/render.h"
#include "backend/gpu/bind_memory.h"
#include "backend/gpu/launch_json.h"
#include "backend/host_files.h"
#include "backend/package_text.h"
#include "backend/weight_files.h"
#include "kernel/simplify.h"
#include "support/json_writer.h"

namespace rlxc {
namespace {

using codegen::Package;

// The processes of a mesh are linked by MPI, whose flags its compiler wrapper knows.
std::string makefile(std::string_view text, const std::string& built, bool mesh) {
  const auto only = [&](const char* words) { return std::string(mesh ? words : ""); };
  return target::expand(text,
                        {{"FILES", built},
                         {"MPI_FLAGS", only("MPI_CFLAGS ?= $(shell mpicxx --showme:compile | sed 's/-pthread//')\n"
                                            "MPI_LIBS ?= $(shell mpicxx --showme:link | sed 's/-pthread//; s/-Wl,[^ ]*//g')\n")},
                         {"CUDA_RANKS", only(" -DRLXC_RANKS $(MPI_CFLAGS)")},
                         {"CUDA_LIBRARIES", only(" -lnccl $(MPI_LIBS)")},
                         {"ROCM_LIBRARIES", only(" -lrccl $(MPI_LIBS)")},
                         {"RANKS_HEADER", only(" link.hpp")},
                         {"(", "$("},
                         {"@", "$@"},
                         {"<", "$<"}});
}

}  // namespace

std::string GpuBackend::readme(const Package& p, const CpuPackageOptions& options) const {
  std::string s = "# " + p.name + "\n\nA model compiled by rlxc for " + std::string(info.name) + " (" + std::string(info.emits) +
                  "): " + std::to_string(p.kernels.size()) + " kernels, " + std::to_string(p.weights.size()) + " weights.\n\n" +
                  tensor_table(p) + "\n## Files\n\n| file | content |\n|---|---|\n";
  s += "| `" + std::string(packaging.kernels_in_file ? "kernels_*" : "*") + "." + std::string(info.extension) +
       "` | the kernels; each says which nodes of the model it computes |\n";
  s += "| `launch.json` | memory, weights, and the order of the kernels, as data; `rlxc schema launch` describes it |\n";
  for (const HostPart& h : packaging.host) s += "| `" + std::string(h.to) + "` | " + std::string(h.content) + " |\n";
  if (packaging.model_files)
    for (const TextFile& f : packaging.model_files(p)) s += "| `" + f.name + "` | " + "the API with the names of this model |\n";
  if (!packaging.makefile.empty()) s += "| `Makefile` | builds the kernels and `run` |\n";
  s += "| `" + weights_file(p) + "` | the weights |\n\n" + weights_paragraph(p, options) + "\n## Use\n\n" +
       std::string(packaging.how);
  s += " WEIGHTS is the folder with the weights files. For example:\n\n    " + std::string(packaging.command) + " .";
  s += example_size_arguments(p);
  for (size_t i = 0; i < p.inputs.size(); ++i) s += " input_" + std::to_string(i) + ".bin";
  s += "\n";
  if (packaging.example)
    if (const std::string example = packaging.example(p); !example.empty()) s += "\n" + example;
  return s +
         "\n## What is checked\n\nThe sizes against the model and its memory plan, the lengths of inputs, the fingerprint of the "
         "weights, "
         "data-dependent dims and loops against the memory there is. " +
         checked_ranges(p, "the run fails") + (p.lir->index_inputs.empty() ? "Indices" : "Other indices") +
         " that the inputs give are " +
         (p.lir->check_indices ? "checked" : "clamped into their range; `--hardened` makes them errors") + ".\n";
}

std::string cxx_example(const Package& p) {
  if (p.mesh) return {};
  std::string sizes;
  const std::vector<int64_t> values = example_sizes(p);
  for (size_t i = 0; i < values.size(); ++i)
    sizes += (i ? ", {" : "{") + p.symbols[i].c_string() + ", " + std::to_string(values[i]) + "}";
  return R"(## In an application

```cpp
#include "device.hpp"

const auto device = rlxc::make_device();     // make_device(1, stream): GPU 1, a stream or command queue of the application
rlxc::Program program(*device, ".", ".");    // the folders of the package and of its weights
)" + (sizes.empty() ? std::string() : "program.set_sizes({" + sizes + "});\n") +
         R"(std::vector<std::vector<char>> in(program.inputs()), out(program.outputs());
for (size_t i = 0; i < in.size(); ++i) in[i].resize(program.input_bytes(i));
for (size_t i = 0; i < out.size(); ++i) out[i].resize(program.output_room(i));
std::vector<const void*> inputs;
std::vector<void*> outputs;
for (auto& data : in) inputs.push_back(data.data());
for (auto& data : out) outputs.push_back(data.data());
program.run(inputs, outputs);                // output_shape(i) and output_bytes(i) say how large results are
```

`run_on_device` takes memory of the device in the same order (a device pointer, or an `id<MTLBuffer>`), which kernels read and write in
place; it returns while they run. Null stands for a buffer of the program, as for states. Several programs may share a device.
)";
}

std::optional<Package> GpuBackend::adapt(Package p, Diagnostics& d) const {
  std::vector<std::vector<uint8_t>> alignments;
  if (info.max_binding > 0) alignments = bind_memory(&p, p.lir->max_binding, d);
  alignments.resize(p.kernels.size());
  for (size_t i = 0; i < p.kernels.size(); ++i) {
    kernel::Kernel& k = p.kernels[i];
    if (packaging.prepare) packaging.prepare(k, alignments[i]);
    else kernel::narrow_indices(k);
    const std::string reason = packaging.refuses ? packaging.refuses(k) : "";
    if (reason.empty()) continue;
    std::string nodes;
    for (const kernel::Comment& c : k.comments)
      if (!c.name.empty() || c.text.starts_with("and ")) nodes += (nodes.empty() ? "" : ", ") + c.text + c.name.line();
    d.error(Code::UnsupportedOnTarget, "the " + std::string(info.name) + " target: " + reason,
            nodes.empty() ? "kernel " + k.name : nodes);
  }
  if (!d.ok()) return std::nullopt;
  return p;
}

std::vector<KernelFile> GpuBackend::kernel_files(const Package& p) const {
  const size_t in_file = std::max<size_t>(packaging.kernels_in_file, 1);
  std::vector<KernelFile> files;
  for (uint32_t i = 0; i < p.kernels.size(); ++i) {
    if (i % in_file == 0) {
      const std::string stem = packaging.kernels_in_file ? "kernels_" + std::to_string(files.size()) : p.kernels[i].name;
      files.push_back({stem + "." + std::string(info.extension), {}});
    }
    files.back().kernels.push_back(i);
  }
  return files;
}

std::optional<std::vector<TextFile>> GpuBackend::write(const Package& p, const CpuPackageOptions& options, Diagnostics&) const {
  std::vector<TextFile> files;
  std::vector<std::string> file_of(p.kernels.size()), f16_file_of(p.kernels.size());
  std::string built;
  for (const KernelFile& file : kernel_files(p)) {
    std::vector<const kernel::Kernel*> kernels;
    for (uint32_t i : file.kernels) {
      kernels.push_back(&p.kernels[i]);
      file_of[i] = file.name;
    }
    files.push_back({file.name, target::render(kernels, info.language())});
    if (packaging.with_f16 && std::ranges::any_of(kernels, [&](const kernel::Kernel* k) { return packaging.uses_f16(*k); })) {
      files.push_back({file.name.substr(0, file.name.find('.')) + ".f16." + std::string(info.extension),
                       target::render(kernels, packaging.with_f16())});
      for (uint32_t i : file.kernels) f16_file_of[i] = files.back().name;
    }
    built += (built.empty() ? "" : " ") + file.name.substr(0, file.name.find('.')) + std::string(packaging.object_extension);
  }
  files.push_back({"launch.json", ""});
  {
    JsonWriter j(files.back().content);
    write_launch_json(p, info.name, file_of, options, j, f16_file_of);
  }
  for (const HostPart& part : packaging.host)
    for (const HostFile& h : host_files())
      if (h.name == part.from) files.push_back({std::string(part.to), std::string(h.text)});
  for (const HostFile& h : host_files())
    if (p.mesh && h.name == packaging.link) files.push_back({"link.hpp", std::string(h.text)});
  if (packaging.model_files)
    for (TextFile& f : packaging.model_files(p)) files.push_back(std::move(f));
  if (!packaging.makefile.empty()) files.push_back({"Makefile", makefile(packaging.makefile, built, p.mesh.has_value())});
  files.push_back({"README.md", readme(p, options)});
  return files;
}

}  // namespace rlxc
