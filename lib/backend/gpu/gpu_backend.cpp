#include "backend/gpu/gpu_backend.h"

#include <algorithm>

#include "backend/c/render.h"
#include "backend/gpu/bind_memory.h"
#include "backend/gpu/launch_json.h"
#include "backend/host_files.h"
#include "backend/weight_files.h"
#include "kernel/simplify.h"
#include "support/json_writer.h"

namespace rlxc {
namespace {

using codegen::Package;

}  // namespace

std::string GpuBackend::readme(const Package& p, const CpuPackageOptions& options) const {
  const Module& m = *p.lir->module;
  const WeightFiles located = locate_weights(p, options);
  std::string s = "# " + p.name + "\n\nA model compiled by rlxc for " + std::string(info.name) + " (" + std::string(info.emits) +
                  "): " + std::to_string(p.kernels.size()) + " kernels, " + std::to_string(p.weights.size()) +
                  " weights.\n\n| file | content |\n|---|---|\n";
  s += "| `" + std::string(packaging.kernels_in_file ? "kernels_*" : "*") + "." + std::string(info.extension) +
       "` | the kernels; each says which nodes of the model it computes |\n";
  s += "| `launch.json` | memory, weights, and the order of the kernels, as data |\n";
  for (const HostPart& h : packaging.host) s += "| `" + std::string(h.to) + "` | host |\n";
  s += "\n" + std::string(packaging.how) + " WEIGHTS is the folder with";
  s += located.packed_bytes > 0 ? " `" + weights_file(p) + "` (" + std::to_string(located.packed_bytes) + " bytes)"
                                : std::string(" no own files");
  for (size_t i = 1; i < located.files.size() && i < 4; ++i)
    s += (i > 1 || located.packed_bytes > 0 ? ", `" : " but `") + located.files[i].markdown() + "`";
  s += located.files.size() > 4 ? " and other files of the model.\n" : ".\n";
  s += "\n| tensor | name | type |\n|---|---|---|\n";
  for (const auto& [kind, ports] : {std::pair{"input ", &p.inputs}, std::pair{"output ", &p.outputs}})
    for (size_t i = 0; i < ports->size(); ++i)
      s += "| " + std::string(kind) + std::to_string(i) + " | " + (*ports)[i].name.markdown() + " | " +
           ForeignText(text(m.graph((*ports)[i].graph).type((*ports)[i].value), m.dims)).markdown() + " |\n";
  return s;
}

std::optional<Package> GpuBackend::adapt(Package p, Diagnostics& d) const {
  if (info.max_binding > 0) bind_memory(&p, p.lir->max_binding, d);
  for (kernel::Kernel& k : p.kernels) {
    if (packaging.prepare) packaging.prepare(k);
    else kernel::narrow_indices(k);
    const std::string why = packaging.refuses ? packaging.refuses(k) : "";
    if (why.empty()) continue;
    std::string nodes;
    for (const kernel::Comment& c : k.comments)
      if (!c.name.empty() || c.text.starts_with("and ")) nodes += (nodes.empty() ? "" : ", ") + c.text + c.name.line();
    d.error(Code::UnsupportedOnTarget, "the " + std::string(info.name) + " target: " + why,
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
  std::vector<std::string> file_of(p.kernels.size());
  std::string built;
  for (const KernelFile& file : kernel_files(p)) {
    std::vector<const kernel::Kernel*> kernels;
    for (uint32_t i : file.kernels) {
      kernels.push_back(&p.kernels[i]);
      file_of[i] = file.name;
    }
    files.push_back({file.name, target::render(kernels, info.language())});
    built += (built.empty() ? "" : " ") + file.name.substr(0, file.name.find('.')) + std::string(packaging.object_extension);
  }
  files.push_back({"launch.json", ""});
  {
    JsonWriter j(files.back().content);
    write_launch_json(p, info.name, file_of, options, j);
  }
  for (const HostPart& part : packaging.host)
    for (const HostFile& h : host_files())
      if (h.name == part.from) files.push_back({std::string(part.to), std::string(h.text)});
  if (!packaging.makefile.empty())
    files.push_back({"Makefile", target::expand(packaging.makefile, {{"FILES", built}, {"(", "$("}, {"@", "$@"}, {"<", "$<"}})});
  files.push_back({"README.md", readme(p, options)});
  return files;
}

}  // namespace rlxc
