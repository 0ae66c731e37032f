#include "backend/kernel_folder.h"

#include "backend/gpu/device_package.h"
#include "backend/graph_package.h"

namespace rlxc {
namespace {

using Texts = std::optional<std::vector<TextFile>>;
using codegen::Package;

void write_files(const Package& p, const std::vector<TextFile>& texts, const MakeFile& make_file) {
  for (const TextFile& f : texts) make_file(f.name, [&](OutputFile& out) { out.write(f.content); });
  make_file(weights_file(p),
            [&](OutputFile& out) { write_weights(p, {}, [&](std::span<const std::byte> bytes) { return out.write(bytes); }); });
}

void write_cpu(const LirModule& lir, const std::string&, const MakeFile& make_file, Diagnostics& d) {
  const auto p = codegen::make_package(lir, c_identifier(lir.module->name), codegen::CapabilityRow{}, d);
  if (p) write_files(*p, write_cpu_package(*p, {}), make_file);
}

void write_device(const LirModule& lir, const std::string& target, const MakeFile& make_file, Diagnostics& d) {
  const auto general = codegen::make_package(lir, c_identifier(lir.module->name), *capability(target), d);
  const auto p = general ? adapt_package(*general, target, d) : std::nullopt;
  if (p) write_files(*p, write_device_package(*p, target), make_file);
}

void write_graph(const LirModule& lir, const std::string& target, const MakeFile& make_file, Diagnostics& d) {
  const Package p = graph_only_package(lir, d);
  const Texts texts = d.ok() ? (target == "mlx" ? write_mlx_package : write_tpu_package)(p, {}, d) : std::nullopt;
  if (texts) write_files(p, *texts, make_file);
}

struct Row {
  std::string_view target;
  void (*write)(const LirModule&, const std::string& target, const MakeFile&, Diagnostics&);
};
constexpr Row kRows[] = {{"cpu", write_cpu},     {"metal", write_device}, {"mlx", write_graph}, {"wgpu", write_device},
                         {"cuda", write_device}, {"rocm", write_device},  {"tpu", write_graph}};

const Row* find(const std::string& target) {
  for (const Row& row : kRows)
    if (row.target == target) return &row;
  return nullptr;
}

}  // namespace

bool has_kernel_folder(const std::string& target) { return find(target); }

void write_kernel_folder(const LirModule& lir, const std::string& target, const MakeFile& make_file, Diagnostics& d) {
  if (const Row* row = find(target)) row->write(lir, target, make_file, d);
}

}  // namespace rlxc
